package machine

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// Vitals are counters of the whole machine. The zero value knows none.
type Vitals struct {
	cpu         cpuTicks
	retransmits float64 // of TCP; NaN: not known
	known       bool
}

// ReadVitals reads two files: it takes about 50 µs, however many processes there are.
func ReadVitals() Vitals { return thisHost().vitals() }

func (h *host) vitals() Vitals {
	cpu, _ := parseStat(h.text("proc/stat"))
	return Vitals{cpu, parseRetransmits(h.text("proc/net/snmp")), true}
}

// Since returns the shares of all CPUs that were in use, in interrupts and steal since
// before, and TCP's retransmits; NaN where that is not known.
func (v Vitals) Since(before Vitals) (busy, interrupts, steal, retransmits float64) {
	if !before.known {
		return math.NaN(), math.NaN(), math.NaN(), math.NaN()
	}
	all := v.cpu.all() - before.cpu.all()
	share := func(now, before float64) float64 { return (now - before) / all } // NaN if no time has passed
	interrupts = share(v.cpu.interrupts, before.cpu.interrupts)
	return share(v.cpu.busy, before.cpu.busy) + interrupts, interrupts, share(v.cpu.steal, before.cpu.steal), v.retransmits - before.retransmits
}

// parseRetransmits parses the two lines of TCP in /proc/net/snmp: names and numbers.
func parseRetransmits(text string) float64 {
	_, rest, _ := strings.Cut("\n"+text, "\nTcp: ")
	names, rest, _ := strings.Cut(rest, "\nTcp: ")
	numbers, _, _ := strings.Cut(rest, "\n")
	words := strings.Fields(numbers)
	if at := slices.Index(strings.Fields(names), "RetransSegs"); at >= 0 && at < len(words) {
		if n, err := strconv.ParseFloat(words[at], 64); err == nil {
			return n
		}
	}
	return math.NaN()
}
