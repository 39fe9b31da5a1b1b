package machine

import (
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
)

// cpuinfo is the first value of a key in /proc/cpuinfo.
func (h *host) cpuinfo(key string) string {
	if all := h.cpuinfos(key); len(all) > 0 {
		return all[0]
	}
	return ""
}

// cpuinfos are the values of all processors, each once.
func (h *host) cpuinfos(key string) (values []string) {
	for line := range strings.Lines(h.text("proc/cpuinfo")) {
		name, value, found := strings.Cut(line, ":")
		value = strings.Join(strings.Fields(value), " ")
		if found && value != "" && strings.TrimSpace(name) == key && !slices.Contains(values, value) {
			values = append(values, value)
		}
	}
	return values
}

// cpuModel is the processor's name, or what makes do for one: ARM's have numbers
// for their designer and their design.
func (h *host) cpuModel() string {
	if names := h.cpuinfos("model name"); len(names) > 0 {
		return strings.Join(names, " + ")
	}
	if designer, designs := h.cpuinfo("CPU implementer"), h.cpuinfos("CPU part"); designer != "" && len(designs) > 0 {
		return "ARM " + designer + " " + strings.Join(designs, "+")
	}
	for _, key := range []string{"cpu model", "cpu", "uarch", "isa"} {
		if name := h.cpuinfo(key); name != "" {
			return name
		}
	}
	return h.told.cpu
}

// cpuSet is which processors may be used. Without a list only their number is
// known, and 0 of them say that not even that is.
type cpuSet struct {
	list  []int
	count int
}

// usable are the processors that this process may use, of those that run. The
// list counts only where it agrees with what the runtime was told: some containers
// have files that were made up for them.
func (h *host) usable() cpuSet {
	list := parseCPUs(h.text("sys/devices/system/cpu/online"))
	online := list
	for line := range strings.Lines(h.text("proc/self/status")) {
		allowed, found := strings.CutPrefix(line, "Cpus_allowed_list:")
		if may := parseCPUs(allowed); found && len(may) > 0 {
			list = slices.DeleteFunc(may, func(cpu int) bool { return len(online) > 0 && !slices.Contains(online, cpu) })
		}
	}
	if n := h.told.cpus; n > 0 && n != len(list) {
		return cpuSet{nil, n}
	}
	return cpuSet{list, len(list)}
}

// mostCPUs bounds what a list may say.
const mostCPUs = 1 << 16

// parseCPUs reads a list like 0-3,8. What is none gives nil.
func parseCPUs(text string) (list []int) {
	for part := range strings.SplitSeq(strings.TrimSpace(text), ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.Atoi(first)
		to, also := strconv.Atoi(last)
		if err != nil || also != nil || from < 0 || to < from || to >= mostCPUs {
			return nil
		}
		for cpu := from; cpu <= to; cpu++ {
			list = append(list, cpu)
		}
	}
	return list
}

// String is the number, and which they are: 3 (0-1,4).
func (s cpuSet) String() string {
	if s.count == 0 {
		return ""
	}
	if len(s.list) == 0 {
		return strconv.Itoa(s.count)
	}
	var parts []string
	for i := 0; i < len(s.list); {
		last := i
		for last+1 < len(s.list) && s.list[last+1] == s.list[last]+1 {
			last++
		}
		part := strconv.Itoa(s.list[i])
		if last > i {
			part += "-" + strconv.Itoa(s.list[last])
		}
		parts = append(parts, part)
		i = last + 1
	}
	return strconv.Itoa(s.count) + " (" + strings.Join(parts, ",") + ")"
}

// smt is whether two threads share a core: on or off.
func (h *host) smt() string {
	switch h.text("sys/devices/system/cpu/smt/active") {
	case "1":
		return "on"
	case "0":
		return "off"
	}
	siblings := h.siblings()
	switch {
	case len(siblings) == 0:
		return h.told.smt
	case slices.ContainsFunc(siblings, func(s string) bool { return len(parseCPUs(s)) > 1 }):
		return "on"
	}
	return "off"
}

// siblings lists which threads share a core, each core once.
func (h *host) siblings() (cores []string) {
	for _, file := range h.glob("sys/devices/system/cpu/cpu[0-9]*/topology/thread_siblings_list") {
		if s := h.text(file); s != "" && !slices.Contains(cores, s) {
			cores = append(cores, s)
		}
	}
	return cores
}

// turboSwitch is what lets the processor run faster than it can for long.
type turboSwitch struct {
	state string // on, off, or empty: not known
	path  string // pattern of the files that switch it
	off   string // what to write there
}

func (h *host) turbo() turboSwitch {
	for _, known := range []turboSwitch{
		{path: "sys/devices/system/cpu/intel_pstate/no_turbo", off: "1"},
		{path: "sys/devices/system/cpu/cpufreq/boost", off: "0"},
		{path: "sys/devices/system/cpu/cpufreq/policy[0-9]*/boost", off: "0"},
	} {
		values := h.each(known.path)
		if values == "" {
			continue
		}
		known.state = "on"
		if values == known.off {
			known.state = "off"
		}
		return known
	}
	return turboSwitch{}
}

// cpuQuota is how much processor time the control groups above this process
// give it.
type cpuQuota struct {
	cpus float64 // +Inf: as much as there is; 0: not known
	path string  // the file that sets it
	none string  // what to write there for no limit
}

// cpuLimit is the least quota from the process's own control group up.
func (h *host) cpuLimit() cpuQuota {
	if !h.exists("proc/self/status") {
		return cpuQuota{}
	}
	least := cpuQuota{cpus: math.Inf(1)}
	for _, dir := range h.controlGroups() {
		if q := h.quota(dir); q.cpus < least.cpus {
			least = q
		}
	}
	return least
}

// controlGroups lists the folders of the groups that may limit processor time, in
// both versions of control groups.
func (h *host) controlGroups() (dirs []string) {
	for line := range strings.Lines(h.text("proc/self/cgroup")) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		var mounts []string
		switch {
		case parts[0] == "0" && parts[1] == "":
			mounts = []string{"sys/fs/cgroup", "sys/fs/cgroup/unified"}
		case slices.Contains(strings.Split(parts[1], ","), "cpu"):
			mounts = []string{"sys/fs/cgroup/cpu", "sys/fs/cgroup/cpu,cpuacct"}
		}
		for _, mount := range mounts {
			// Within a container the path may be the host's, and only the root is there.
			for group := path.Clean("/" + parts[2]); ; group = path.Dir(group) {
				if dir := path.Join(mount, group); h.exists(dir) && !slices.Contains(dirs, dir) {
					dirs = append(dirs, dir)
				}
				if group == "/" {
					break
				}
			}
		}
	}
	return dirs
}

// quota is the limit that one group sets.
func (h *host) quota(dir string) cpuQuota {
	q := cpuQuota{path: dir + "/cpu.max", none: "max"}
	words := strings.Fields(h.text(q.path))
	if len(words) != 2 { // not version 2
		q = cpuQuota{path: dir + "/cpu.cfs_quota_us", none: "-1"}
		words = []string{h.text(q.path), h.text(dir + "/cpu.cfs_period_us")}
	}
	micros, err := strconv.ParseInt(words[0], 10, 64)
	period, also := strconv.ParseInt(words[1], 10, 64)
	if err != nil || also != nil || micros <= 0 || period <= 0 {
		return cpuQuota{cpus: math.Inf(1)}
	}
	q.cpus = float64(micros) / float64(period)
	return q
}

// String is the number of processors, or none.
func (q cpuQuota) String() string {
	switch {
	case q.cpus == 0:
		return ""
	case math.IsInf(q.cpus, 1):
		return "none"
	}
	return strconv.FormatFloat(q.cpus, 'f', -1, 64)
}
