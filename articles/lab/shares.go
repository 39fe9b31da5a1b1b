package lab

import (
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"

	"github.com/hone-go/hone/tool/probe"
)

// flatShare returns the share of a profile, in percent, that functions with these name
// endings spent themselves.
func flatShare(v *probe.View, ends ...string) float64 {
	sum := 0.0
	for _, line := range v.Top(false) {
		if slices.ContainsFunc(ends, func(end string) bool { return strings.HasSuffix(line.Function, end) }) {
			sum += line.Flat
		}
	}
	return percent(sum, v.Total)
}

// cumShare returns the share, in percent, of functions and all that they call. None of
// them should call another.
func cumShare(v *probe.View, functions ...string) float64 {
	sum := 0.0
	for _, line := range v.Top(true) {
		if slices.Contains(functions, line.Function) {
			sum += line.Cum
		}
	}
	return percent(sum, v.Total)
}

// nameOf returns the name of a function or method as profiles have it.
func nameOf(function any) string {
	return runtime.FuncForPC(reflect.ValueOf(function).Pointer()).Name()
}

func percent(part, of float64) float64 {
	if of == 0 {
		return 0
	}
	return 100 * part / of
}

// top names the largest functions of a profile.
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

// shortName returns a function's name without its package path. C++ names can be longer
// than a line.
func shortName(function string) string {
	const longest = 60
	name := function[strings.LastIndexByte(function, '/')+1:]
	if len(name) > longest {
		name = strings.ToValidUTF8(name[:longest], "") + "…"
	}
	return name
}

// Categories of CPU time, by function names.
var (
	inSystemCalls = []string{"Syscall6", "RawSyscall6", "syscall.rawsyscalln", "syscall.syscalln"}
	inAllocation  = []string{"runtime.mallocgc", "runtime.gcBgMarkWorker", "runtime.bgsweep", "runtime.bgscavenge"}
)
