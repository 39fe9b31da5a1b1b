package machine

import (
	"cmp"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
)

// cpuinfo returns the first value of a key in /proc/cpuinfo.
func (h *host) cpuinfo(key string) string { return cmp.Or(h.cpuinfos(key)...) }

// cpuinfos returns the distinct values of a key over all CPUs.
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

// cpuModel returns the CPU's name, or a substitute: ARM CPUs have numbers for implementer
// and part.
func (h *host) cpuModel() string {
	if names := h.cpuinfos("model name"); len(names) > 0 {
		return strings.Join(names, " + ")
	}
	if designer, designs := h.cpuinfo("CPU implementer"), h.cpuinfos("CPU part"); designer != "" && len(designs) > 0 {
		return "ARM " + designer + " " + strings.Join(designs, "+")
	}
	return cmp.Or(h.cpuinfo("cpu model"), h.cpuinfo("cpu"), h.cpuinfo("uarch"), h.cpuinfo("isa"), h.reported.cpu)
}

// cpuSet is the set of usable CPUs. Without a list only their number is known; 0 means
// that not even the number is known.
type cpuSet struct {
	list  []int
	count int
}

// usable returns the online CPUs that this process may use. The list counts only if it
// agrees with the Go runtime: some containers have fabricated files.
func (h *host) usable() cpuSet {
	list := parseCPUs(h.text("sys/devices/system/cpu/online"))
	online := list
	for line := range strings.Lines(h.text("proc/self/status")) {
		allowed, found := strings.CutPrefix(line, "Cpus_allowed_list:")
		if may := parseCPUs(allowed); found && len(may) > 0 {
			list = slices.DeleteFunc(may, func(cpu int) bool { return len(online) > 0 && !slices.Contains(online, cpu) })
		}
	}
	if n := h.reported.cpus; n > 0 && n != len(list) {
		return cpuSet{nil, n}
	}
	return cpuSet{list, len(list)}
}

// mostCPUs bounds the size of a list.
const mostCPUs = 1 << 16

// parseCPUs parses a list like 0-3,8. It returns nil for anything else.
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

// String formats the number and the list: 3 (0-1,4).
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

// smt reports whether two threads share a core: on or off.
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
		return ""
	case slices.ContainsFunc(siblings, func(s string) bool { return len(parseCPUs(s)) > 1 }):
		return "on"
	}
	return "off"
}

// siblings lists the threads that share a core, each core once.
func (h *host) siblings() (cores []string) {
	for _, file := range h.glob("sys/devices/system/cpu/cpu[0-9]*/topology/thread_siblings_list") {
		if s := h.text(file); s != "" && !slices.Contains(cores, s) {
			cores = append(cores, s)
		}
	}
	return cores
}

// turboSwitch is a setting that lets the CPU exceed its sustained frequency.
type turboSwitch struct {
	state string // on, off, or empty if not known
	path  string // pattern of the files that set it
	off   string // the value that disables it
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

// cpuQuota is the CPU quota of the cgroups above this process.
type cpuQuota struct {
	cpus float64 // +Inf: no limit; 0: not known
	path string  // the file that sets it
	none string  // the value for no limit
}

// cpuLimit returns the tightest quota, from the process's cgroup up.
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

// controlGroups lists the folders of the cgroups that may limit CPU time, of both cgroup
// versions.
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
			// In a container the path may be the host's, and only the root exists.
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

// quota returns the limit that one cgroup sets.
func (h *host) quota(dir string) cpuQuota {
	q := cpuQuota{path: dir + "/cpu.max", none: "max"}
	words := strings.Fields(h.text(q.path))
	if len(words) != 2 { // cgroup v1
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

// String formats the number of CPUs, or none.
func (q cpuQuota) String() string {
	switch {
	case q.cpus == 0:
		return ""
	case math.IsInf(q.cpus, 1):
		return "none"
	}
	return strconv.FormatFloat(q.cpus, 'f', -1, 64)
}
