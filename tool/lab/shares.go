package lab

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hone-go/hone/tool/probe"
)

// flatShare is the part of a profile, in percent, that is spent in functions whose
// names end as given, themselves.
func flatShare(v *probe.View, ends ...string) float64 {
	sum := 0.0
	for _, line := range v.Top(false) {
		if slices.ContainsFunc(ends, func(end string) bool { return strings.HasSuffix(line.Function, end) }) {
			sum += line.Flat
		}
	}
	return percent(sum, v.Total)
}

// cumShare is the part in some functions and all that they call. None of them
// should call another.
func cumShare(v *probe.View, functions ...string) float64 {
	sum := 0.0
	for _, line := range v.Top(true) {
		if slices.Contains(functions, line.Function) {
			sum += line.Cum
		}
	}
	return percent(sum, v.Total)
}

func percent(part, of float64) float64 {
	if of == 0 {
		return 0
	}
	return 100 * part / of
}

// top names the functions that a profile has most of.
func top(v *probe.View, n int) string {
	var names []string
	for _, line := range v.Top(false) {
		if len(names) == n {
			break
		}
		names = append(names, fmt.Sprintf("%s %.0f%%", shortName(line.Function), percent(line.Flat, v.Total)))
	}
	return strings.Join(names, ", ")
}

// shortName is a function's name without the path of its package. C++ has names that are
// longer than a line.
func shortName(function string) string {
	const longest = 60
	name := function[strings.LastIndexByte(function, '/')+1:]
	if len(name) > longest {
		name = strings.ToValidUTF8(name[:longest], "") + "…"
	}
	return name
}

// Where the processors' time goes, by the names of functions.
var (
	inSystemCalls = []string{"Syscall6", "RawSyscall6", "syscall.rawsyscalln", "syscall.syscalln"}
	inAllocation  = []string{"runtime.mallocgc", "runtime.gcBgMarkWorker", "runtime.bgsweep", "runtime.bgscavenge"}
)
