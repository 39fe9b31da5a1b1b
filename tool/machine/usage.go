package machine

import (
	"cmp"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Usage is a snapshot of the machine's counters. The difference from a zero value is not
// known.
type Usage struct {
	cpu       cpuTicks
	cpus      int
	throttled *time.Duration // nil: not known
	processes map[int]process
	self      int
}

// cpuTicks is the time of all CPUs together, in ticks of tickLength.
type cpuTicks struct{ busy, idle, interrupts, steal float64 }

// tickLength is the kernel's unit of CPU time for user space on every platform of Go.
const tickLength = time.Second / 100

func (t cpuTicks) all() float64 { return t.busy + t.idle + t.interrupts + t.steal }

// process is the CPU time of one process, including reaped children.
type process struct {
	name   string
	parent int
	since  string  // start time in ticks: process ids are reused
	own    float64 // ticks
	ended  float64 // ticks of reaped children
}

// Meanwhile is what happened between two snapshots. Shares are of the time of all CPUs
// together: of two, one busy CPU is 0.5. What is not available is nil.
type Meanwhile struct {
	// Others is the share that other processes used, and the kernel for itself.
	Others *float64
	// Rivals is how much of the CPU time that this process did not use the others used.
	Rivals *float64
	// Steal is the share in which the host ran other machines instead.
	Steal *float64
	// Throttled is the share of time in which this process's cgroups were throttled by
	// their quota.
	Throttled *float64
	// Busiest are the names of the others that used most, each with its share of one CPU.
	Busiest string
}

// Measure reads the counters. It takes about 30 µs per process on the machine
// (BenchmarkMeasure).
func Measure() Usage { return thisHost().measure() }

// Between returns what happened from u to later. This process, those in own, and their
// reaped children do not count as others. If one of own has ended and its parent is not
// in own, Others is nil. Ticks are 10 ms, so over a second shares are exact to a
// hundredth.
func (u Usage) Between(later Usage, own ...int) (m Meanwhile) {
	ticks := later.cpu.all() - u.cpu.all()
	if u.cpus > 0 && later.cpus > 0 && ticks > 0 {
		part := func(from, to float64) *float64 {
			return new(min(max(0, (to-from)/ticks), 1))
		}
		m.Steal = part(u.cpu.steal, later.cpu.steal)
		if ours, known := u.ours(later, own); known {
			m.Others = part(u.cpu.busy+ours, later.cpu.busy)
			busy := later.cpu.busy - u.cpu.busy
			if self, known := u.ours(later, nil); known && busy > self {
				m.Rivals = new(min(max(0, (busy-ours)/(busy-self)), 1))
			}
			m.Busiest = strings.Join(u.busiest(later, mostNamed, own...), ", ")
		}
		if u.throttled != nil && later.throttled != nil {
			m.Throttled = part(0, float64(*later.throttled-*u.throttled)/float64(tickLength))
		}
	}
	return m
}

// ours returns the ticks that this process and own have used until later. The use of one
// that has ended is known only from an ancestor in own that inherited it.
func (u Usage) ours(later Usage, own []int) (ticks float64, known bool) {
	if u.processes == nil || later.processes == nil {
		return 0, false
	}
	used := u.spent(later)
	own = slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(own), later.self))))
	for _, pid := range own {
		if _, lives := later.processes[pid]; lives {
			ticks += used[pid]
		} else if _, was := u.processes[pid]; was && !slices.Contains(own, u.heir(later, pid)) {
			return 0, false
		}
	}
	return max(0, ticks), true
}

// spent returns the ticks that each living process has used until later. What others that have ended
// used counts for their first living ancestor, which has inherited their whole life.
func (u Usage) spent(later Usage) map[int]float64 {
	used := make(map[int]float64, len(later.processes))
	for pid, now := range later.processes {
		used[pid] += now.own + now.ended
		switch before, known := u.processes[pid]; {
		case !known:
		case before.since == now.since:
			used[pid] -= before.own + before.ended
		default: // the id was used again
			used[u.heir(later, pid)] -= before.own + before.ended
		}
	}
	for pid, before := range u.processes {
		if _, lives := later.processes[pid]; !lives {
			used[u.heir(later, pid)] -= before.own + before.ended
		}
	}
	return used
}

// heir returns the first living ancestor of a process that has ended; 0: none is known.
func (u Usage) heir(later Usage, pid int) int {
	for range u.processes {
		pid = u.processes[pid].parent
		if before, known := u.processes[pid]; !known {
			return 0
		} else if now, lives := later.processes[pid]; lives && now.since == before.since {
			return pid
		}
	}
	return 0
}

// mostNamed is how many other programs are named.
const mostNamed = 3

// busiest lists the n processes, except this one and own, that used most CPU between two
// snapshots, each with its share of one CPU. Processes that ended meanwhile count for the
// parent that reaped them.
func (u Usage) busiest(later Usage, n int, own ...int) (names []string) {
	if later.cpus == 0 {
		return nil
	}
	elapsed := (later.cpu.all() - u.cpu.all()) / float64(later.cpus)
	used := u.used(later, own)
	most := slices.SortedFunc(maps.Keys(used), func(a, b string) int {
		return cmp.Or(cmp.Compare(used[b], used[a]), cmp.Compare(a, b))
	})
	for _, name := range most {
		if len(names) < n && elapsed > 0 && used[name] > 0 {
			names = append(names, name+" "+percent(used[name]/elapsed))
		}
	}
	return names
}

// used returns the ticks of all processes, by name, except this one and own. None has more than all
// others together: who inherits whose children is not always known.
func (u Usage) used(later Usage, own []int) map[string]float64 {
	most := later.cpu.busy - u.cpu.busy
	if ours, known := u.ours(later, own); known {
		most -= ours
	}
	used, byName := u.spent(later), map[string]float64{}
	for pid, now := range later.processes {
		if pid != later.self && !slices.Contains(own, pid) {
			byName[now.name] = min(byName[now.name]+max(0, used[pid]), max(0, most))
		}
	}
	return byName
}

func percent(part float64) string {
	digits := 0
	if part < 0.1 {
		digits = 1
	}
	return strconv.FormatFloat(100*part, 'f', digits, 64) + " %"
}

func (h *host) measure() Usage {
	u := Usage{self: h.pid, processes: h.processes()}
	u.cpu, u.cpus = parseStat(h.text("proc/stat"))
	for _, dir := range h.controlGroups() {
		if stopped, found := parseThrottled(h.text(dir + "/cpu.stat")); found {
			if u.throttled != nil {
				stopped += *u.throttled
			}
			u.throttled = &stopped
		}
	}
	return u
}

// parseStat parses the line "cpu" of /proc/stat: user, nice, system, idle, iowait, irq,
// softirq, steal; guest time is included in user and nice. One line per CPU follows.
func parseStat(text string) (t cpuTicks, cpus int) {
	first, rest, _ := strings.Cut(text, "\n")
	words := strings.Fields(first)
	if len(words) < 8 || words[0] != "cpu" {
		return cpuTicks{}, 0
	}
	var n [8]float64 // an old kernel lacks the last ones, which stay 0
	for i := range min(len(n), len(words)-1) {
		v, ok := parseCount(words[1+i])
		if !ok {
			return cpuTicks{}, 0
		}
		n[i] = v
	}
	for line := range strings.Lines(rest) {
		if strings.HasPrefix(line, "cpu") {
			cpus++
		}
	}
	return cpuTicks{busy: n[0] + n[1] + n[2], idle: n[3] + n[4], interrupts: n[5] + n[6], steal: n[7]}, cpus
}

// parseCount parses a non-negative number.
func parseCount(word string) (float64, bool) {
	n, err := strconv.ParseUint(word, 10, 64)
	return float64(n), err == nil
}

// keyed parses lines of a word and a number.
func keyed(text string) map[string]float64 {
	values := map[string]float64{}
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) == 2 {
			if v, ok := parseCount(words[1]); ok {
				values[words[0]] = v
			}
		}
	}
	return values
}

// parseThrottled parses a cgroup's cpu.stat, of either version.
func parseThrottled(text string) (stopped time.Duration, found bool) {
	values := keyed(text)
	if micros, found := values["throttled_usec"]; found {
		return time.Duration(micros) * time.Microsecond, true
	}
	nanos, found := values["throttled_time"]
	return time.Duration(nanos), found
}

// processes reads all visible processes; nil if this one is not among them.
func (h *host) processes() map[int]process {
	entries, err := fs.ReadDir(h.root, "proc")
	if err != nil {
		return nil
	}
	all := make(map[int]process, len(entries))
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, ok := parseProcess(h.text("proc/" + e.Name() + "/stat")); ok {
			all[pid] = p
		}
	}
	if _, found := all[h.pid]; !found {
		return nil
	}
	return all
}

// parseProcess parses /proc/PID/stat. The name is in parentheses and may contain
// anything, even parentheses: the program chooses it.
func parseProcess(text string) (p process, ok bool) {
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return process{}, false
	}
	// After the name the first word is the third field of proc(5), so utime, the 14th
	// field, is the 12th word.
	words := strings.Fields(text[end+1:])
	if len(words) < 20 {
		return process{}, false
	}
	var ticks [4]float64
	for i := range ticks {
		if ticks[i], ok = parseCount(words[11+i]); !ok {
			return process{}, false
		}
	}
	parent, err := strconv.Atoi(words[1])
	name := strings.Map(printable, text[open+1:end])
	return process{name, parent, words[19], ticks[0] + ticks[1], ticks[2] + ticks[3]}, err == nil
}

// printable replaces control characters, which a terminal would obey.
func printable(r rune) rune {
	if unicode.IsPrint(r) && r != unicode.ReplacementChar {
		return r
	}
	return '?'
}
