// Package machine describes the machine of a measurement, and finds sources of noise in
// it.
//
// Facts are what figures depend on, to be stored with them. Usage is a snapshot of the
// machine's counters; two of them show what other programs did in between. Checks are the
// known sources of noise, each with the command that removes it.
//
// Linux provides everything through /proc and /sys; on other systems little is known.
// What is not known is left out, nil or Unknown, and never guessed. Nothing here names
// the host, its users or their folders, except Check.Fix.
package machine

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Facts are what figures depend on. A key without a known value is absent.
type Facts struct {
	// Strict facts must be equal for figures to be comparable.
	Strict map[string]string `json:"strict"`
	// Soft facts may differ a little, which is worth a note.
	Soft map[string]string `json:"soft"`
}

// Read reads the facts of this machine, as far as this process may. It takes about 1.5 ms
// (BenchmarkRead).
//
// Strict keys are cpu, cpus, smt, kernel, goos, goarch, virtual, cpu-limit and memory;
// soft ones governor, turbo, mitigations, thp, clocksource, microcode, nofile, swap, and
// sysctls under their own names.
func Read() Facts { return thisHost().facts() }

func (h *host) facts() Facts {
	return Facts{
		Strict: known(map[string]string{
			"cpu":       h.cpuModel(),
			"cpus":      h.usable().String(),
			"smt":       h.smt(),
			"kernel":    h.kernel(),
			"goos":      h.goos,
			"goarch":    h.goarch,
			"virtual":   h.virtual(),
			"cpu-limit": h.cpuLimit().String(),
			"memory":    h.size("MemTotal", ""),
		}),
		Soft: h.softFacts(),
	}
}

func (h *host) softFacts() map[string]string {
	soft := map[string]string{
		"governor":    h.each("sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"),
		"turbo":       h.turbo().state,
		"mitigations": h.mitigations(),
		"thp":         h.hugePages(),
		"clocksource": h.text(clocksourcePath),
		"microcode":   h.cpuinfo("microcode"),
		"nofile":      h.descriptors().String(),
		"swap":        h.size("SwapTotal", "none"),
	}
	for _, name := range sysctls {
		soft[name] = h.sysctl(name)
	}
	return known(soft)
}

// sysctls lists the kernel settings that affect network services.
var sysctls = []string{
	"net.core.somaxconn",
	"net.core.rmem_max",
	"net.core.wmem_max",
	"net.ipv4.ip_local_port_range",
	"net.ipv4.tcp_max_syn_backlog",
	"net.ipv4.tcp_syncookies",
	"net.ipv4.tcp_tw_reuse",
	"net.ipv4.tcp_rmem",
	"net.ipv4.tcp_wmem",
}

// known drops the keys without a value.
func known(facts map[string]string) map[string]string {
	for key, value := range facts {
		if value == "" {
			delete(facts, key)
		}
	}
	return facts
}

// sysctl reads a setting, with single spaces between its numbers.
func (h *host) sysctl(name string) string {
	return strings.Join(strings.Fields(h.text("proc/sys/"+strings.ReplaceAll(name, ".", "/"))), " ")
}

const clocksourcePath = "sys/devices/system/clocksource/clocksource0/current_clocksource"

// kernel returns the kernel's release.
func (h *host) kernel() string {
	return cmp.Or(h.text("proc/sys/kernel/osrelease"), h.reported.kernel)
}

// mitigations lists the CPU's vulnerabilities with a costly mitigation, and those without
// one.
func (h *host) mitigations() string {
	var mitigated, vulnerable []string
	for _, path := range h.glob("sys/devices/system/cpu/vulnerabilities/*") {
		name := path[strings.LastIndexByte(path, '/')+1:]
		switch said := h.text(path); {
		case strings.HasPrefix(said, "Mitigation"):
			mitigated = append(mitigated, name)
		case strings.HasPrefix(said, "Vulnerable"):
			vulnerable = append(vulnerable, name)
		}
	}
	var parts []string
	if len(mitigated) > 0 {
		parts = append(parts, "on: "+strings.Join(mitigated, " "))
	}
	if len(vulnerable) > 0 {
		parts = append(parts, "off: "+strings.Join(vulnerable, " "))
	}
	return strings.Join(parts, "; ")
}

// hugePages returns the choice in brackets: always, madvise or never.
func (h *host) hugePages() string {
	_, rest, _ := strings.Cut(h.text("sys/kernel/mm/transparent_hugepage/enabled"), "[")
	chosen, _, found := strings.Cut(rest, "]")
	if !found {
		return ""
	}
	return chosen
}

// memory returns a line of /proc/meminfo, in bytes.
func (h *host) memory(name string) (bytes uint64, found bool) {
	for line := range strings.Lines(h.text("proc/meminfo")) {
		key, value, _ := strings.Cut(line, ":")
		if words := strings.Fields(value); key == name && len(words) == 2 && words[1] == "kB" {
			kib, err := strconv.ParseUint(words[0], 10, 54)
			return kib << 10, err == nil
		}
	}
	if name == "MemTotal" && h.reported.memory > 0 {
		return h.reported.memory, true
	}
	return 0, false
}

// size returns a line of /proc/meminfo for people, with a word for zero.
func (h *host) size(name, zero string) string {
	bytes, found := h.memory(name)
	switch {
	case !found:
		return ""
	case bytes == 0:
		return zero
	}
	return roughSize(bytes)
}

// roughSize rounds to whole GiB, and below one to quarters: kernels on the same machine
// reserve different amounts.
func roughSize(bytes uint64) string {
	const quarter = 1 << 28
	quarters := (bytes + quarter/2) / quarter
	if quarters < 4 {
		return strconv.FormatFloat(float64(max(quarters, 1))/4, 'g', -1, 64) + " GiB"
	}
	return strconv.FormatUint((quarters+2)/4, 10) + " GiB"
}

// descriptorLimit is RLIMIT_NOFILE. The zero value means not known.
type descriptorLimit struct {
	soft, hard uint64
	known      bool
}

// unlimited is the smallest limit that means none: systems write it differently, always
// far above what a kernel allows.
const unlimited = 1 << 40

// descriptors returns the limit of this process, which Go has already raised to its
// maximum.
func (h *host) descriptors() descriptorLimit {
	for line := range strings.Lines(h.text("proc/self/limits")) {
		rest, found := strings.CutPrefix(line, "Max open files")
		if words := strings.Fields(rest); found && len(words) >= 2 {
			soft, ok := parseLimit(words[0])
			hard, also := parseLimit(words[1])
			return descriptorLimit{soft, hard, ok && also}
		}
	}
	return h.reported.descriptors
}

func parseLimit(word string) (uint64, bool) {
	if word == "unlimited" {
		return unlimited, true
	}
	n, err := strconv.ParseUint(word, 10, 64)
	return n, err == nil
}

func formatLimit(n uint64) string {
	if n >= unlimited {
		return "unlimited"
	}
	return strconv.FormatUint(n, 10)
}

// String formats it as soft/hard.
func (l descriptorLimit) String() string {
	if !l.known {
		return ""
	}
	return formatLimit(l.soft) + "/" + formatLimit(l.hard)
}

// each returns the distinct values in the files matching a pattern.
func (h *host) each(pattern string) string {
	var values []string
	for _, path := range h.glob(pattern) {
		if value := h.text(path); value != "" && !slices.Contains(values, value) {
			values = append(values, value)
		}
	}
	slices.Sort(values)
	return strings.Join(values, ", ")
}
