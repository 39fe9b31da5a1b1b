package machine

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
)

// checkLimit compares the quota with the threads that it has to feed: once it is used up,
// they are throttled until the end of the period, usually 100 ms.
func (h *host) checkLimit() Check {
	limit, usable := h.cpuLimit(), h.usable()
	c := Check{
		Name: "cpu-limit", State: Unknown, Found: limit.String(), Want: "none",
		Why: "a cgroup that has used up its CPU quota is throttled for the rest of each 100 ms",
	}
	if limit.cpus == 0 {
		return c
	}
	if c.State = OK; usable.count > 0 && limit.cpus < float64(usable.count) {
		c.State = Warn
		if float64(h.procs) > math.Ceil(limit.cpus) {
			c.State = Bad
			c.Why += fmt.Sprintf(", and GOMAXPROCS=%d can exceed it", h.procs)
		}
		if h.inContainer() {
			c.Why += "; start the container without a limit, or with dedicated CPUs"
		} else {
			c.Want = "none, " + path.Base(limit.path) + "=" + limit.none
			c.Fix = setFile(limit.none, limit.path)
		}
	}
	return c
}

const governors = "sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"

func (h *host) checkTurbo() Check {
	turbo := h.turbo()
	c := Check{
		Name: "turbo", Found: turbo.state, Want: "off",
		Why: "the CPU runs faster until it is warm, and when fewer cores are busy: the first of two runs wins",
	}.oneOf("off")
	if c.State == Warn {
		c.Want = "off, " + path.Base(turbo.path) + "=" + turbo.off
		c.Fix = setFiles(turbo.off, turbo.path)
	}
	return c
}

func (h *host) checkSMT() Check {
	const file = "sys/devices/system/cpu/smt/control"
	c := Check{
		Name: "smt", Found: h.smt(), Want: "off",
		Why: "two threads share a core and slow each other down; or pin generator and server to separate cores",
	}.oneOf("off")
	if c.State == Warn {
		if cores := h.siblings(); len(cores) > 0 {
			const shown = 4
			c.Found += ": " + strings.Join(cores[:min(shown, len(cores))], " ")
			if len(cores) > shown {
				c.Found += " …"
			}
		}
		if h.text(file) == "on" {
			c.Fix = setFiles("off", file)
		}
	}
	return c
}

// checkClock checks the clock source. The fast ones are read without a system call.
func (h *host) checkClock() Check {
	const choices = "sys/devices/system/clocksource/clocksource0/available_clocksource"
	c := Check{
		Name: "clocksource", Found: h.text(clocksourcePath), Want: "tsc, kvm-clock or arch_sys_counter",
		Why: "reading this clock is a slow call into the kernel or the hypervisor, and servers read it constantly",
	}
	fast := slices.Contains([]string{"tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page", "riscv_clocksource", "timebase", "tod"}, c.Found)
	c.State = stateOf(c.Found != "", fast, Bad)
	switch {
	case c.State != Bad:
		return c
	case c.Found == "xen":
		c.State = Warn
	}
	for choice := range strings.FieldsSeq(h.text(choices)) {
		if choice == "tsc" || choice == "kvm-clock" || choice == "arch_sys_counter" {
			c.Want, c.Fix = choice, setFiles(choice, clocksourcePath)
			return c
		}
	}
	c.Why += "; the kernel offers no better one here; look for clocksource in its log (dmesg)"
	return c
}

// checkPower detects a machine on battery.
func (h *host) checkPower() Check {
	c := Check{
		Name: "power", State: Unknown, Want: "mains",
		Why: "on battery a machine runs slower, and slower still when the charge is low; plug it in",
	}
	const folder = "sys/class/power_supply"
	mains, battery := "", ""
	for _, dir := range h.glob(folder + "/*") {
		if h.text(dir+"/scope") == "Device" {
			continue // the battery of a peripheral, such as a mouse
		}
		switch h.text(dir + "/type") {
		case "Mains", "USB":
			mains += h.text(dir + "/online")
		case "Battery":
			battery += h.text(dir + "/status")
		}
	}
	switch {
	case strings.Contains(battery, "Discharging") && !strings.Contains(mains, "1"):
		c.State, c.Found = Bad, "battery"
	case battery != "" || mains != "":
		c.State, c.Found = OK, "mains"
	case h.exists(folder):
		c.State, c.Found = OK, "no battery"
	}
	return c
}

// How much of all CPUs others may use.
const (
	quietOthers = 0.05
	loudOthers  = 0.20
	quietSteal  = 0.005
	loudSteal   = 0.05
)

// judge converts a share to a state.
func judge(part *float64, quiet, loud float64) (found string, s State) {
	if part == nil {
		return "", Unknown
	}
	if s = stateOf(true, *part <= quiet, Warn); *part > loud {
		s = Bad
	}
	return percent(*part), s
}

func (h *host) checkOthers(m Meanwhile, names []string) Check {
	c := Check{
		Name: "others", Want: "at most " + percent(quietOthers),
		Why: "other programs use CPU time while you measure; stop them, or wait",
	}
	c.Found, c.State = judge(m.Others, quietOthers, loudOthers)
	if c.State != OK && c.State != Unknown && len(names) > 0 {
		c.Found += ": " + strings.Join(names, ", ")
		c.Why += " (per name: share of one CPU)"
	}
	return c
}

// Memory that should be free: a share of the total, or an absolute amount.
const (
	wantFree  = 0.1
	leastFree = 256 << 20
)

func (h *host) checkMemory() Check {
	c := Check{
		Name: "memory", State: Unknown, Want: "at least " + percent(wantFree) + " available",
		Why: "when memory is short the kernel drops its cache, swaps or kills programs; stop programs that use much (ps -e -o rss,comm --sort=-rss)",
	}
	total, known := h.memory("MemTotal")
	free, also := h.memory("MemAvailable")
	if !known || !also || total == 0 {
		return c
	}
	part := float64(free) / float64(total)
	c.Found = strconv.FormatUint(free>>20, 10) + " MiB, " + percent(part)
	if c.State = stateOf(true, part >= wantFree && free >= leastFree, Warn); free < leastFree/4 {
		c.State = Bad
	}
	return c
}

func (h *host) checkSwap() Check {
	c := Check{
		Name: "swap", State: Unknown, Want: "none used, or swap off",
		Why: "swapped-out pages are read back from disk during a run",
		Fix: "sudo swapoff -a",
	}
	total, known := h.memory("SwapTotal")
	free, also := h.memory("SwapFree")
	if !known || !also {
		return c
	}
	const unimportant = 1 << 20
	used := total - min(free, total)
	switch {
	case total == 0:
		c.State, c.Found = OK, "off"
	case used < unimportant:
		c.State, c.Found = OK, "none used"
	default:
		c.State, c.Found = Warn, strconv.FormatUint(used>>20, 10)+" MiB used"
	}
	return c
}
