// Package lab reproduces the measurements of five articles on fast Go services, and
// measures hone under the same load. Its claims are tests:
//
//	go test ./articles/lab -v -run TestClaims/objects -args -whole
//
// A lab is one article's experiment. Its servers and its timed code are stages: each runs
// in a separate process, with the same garbage collector settings and the same CPUs,
// under the same load, alternating. They are written anew with the costs, and the faults,
// that the articles describe. A row has an article's claim, the figure measured here,
// and whether the claim holds.
//
// Figures of another machine cannot be reproduced, so requests per second are shown next
// to the article's and not judged. A verdict is about how one thing compares with another
// in every round of the same minutes.
package lab

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/hone-go/hone/tool/machine"
)

// row is one claim.
type row struct {
	what     string
	article  float64 // 0: it gives no figure, or 0
	unit     string
	measured spread
	ratio    spread // measured divided by what ratioTo names
	ratioTo  string // if it begins with "less than", the ratio is the inverse
	verdict  verdict
	why      string
}

// String returns the row as text.
func (r row) String() string {
	text := r.what + ": no figure"
	if r.measured.known() {
		text = r.what + ": " + number(r.measured.median()) + " " + r.unit
		if low, high := slices.Min(r.measured.rounds), slices.Max(r.measured.rounds); low != high {
			text += fmt.Sprintf(" (%s to %s)", number(low), number(high))
		}
	}
	if r.article != 0 {
		text += "; article " + number(r.article)
	}
	text += "\n  " + string(r.verdict)
	if r.ratio.known() {
		text += "; " + number(r.ratio.median()) + " × " + r.ratioTo
	}
	return text + "\n  " + r.why
}

// number formats a figure with three significant digits and commas.
func number(v float64) string {
	size := math.Abs(v)
	switch {
	case size >= 100 || size == math.Trunc(size):
		return thousands(int(math.Round(v)))
	case size >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case size >= 0.1:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'f', 3, 64)
}

// thousands formats a whole number with commas.
func thousands(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// experiment describes how one lab is run.
type experiment struct {
	name  string
	claim string
	run   func(context.Context, *bench) error
}

func experiments() []experiment {
	return []experiment{
		{"objects", "A pool makes a short-lived object 7 times cheaper (232 to 33 ns); for 8 bytes it costs more than it saves.", objects},
		{"workers", "A pool of goroutines runs in 5.6 ms the 10,000 tasks that take 41 ms with one goroutine each.", tasks},
		{"contexts", "A framework pools its contexts, which relieves the garbage collector and makes routing cheap.", contexts},
		{"conns", "With a pool of 2,000 connections, 500,000 requests take 3.73 s: more than 150,000 per second.", connections},
		{"idle", "A million connections with a goroutine each take tens of GB; epoll saves most of that.", idle},
		{"avatar", "An avatar service goes from 898 to 1,204, to 22,889 and to 42,850 requests/s by caching what it sends and by not logging.", avatars},
	}
}

// bench is one running lab.
type bench struct {
	stage  []string // the command that calls Serve with the argument that is appended
	quick  bool     // about a second a lab, enough to see that it works; figures are rough
	say    func(format string, args ...any)
	rows   []row
	doubts []string // why figures are not reliable
}

// measure runs one lab: a minute or two on two CPUs. No process is left running.
func (b *bench) measure(ctx context.Context, e experiment) error {
	before := machine.Measure()
	if err := e.run(ctx, b); err != nil {
		return fmt.Errorf("lab: %s: %w", e.name, err)
	}
	if others := before.Between(machine.Measure()).Others; others != nil && *others > mostOthers && !b.quick {
		b.doubt("other programs used %.0f %% of the CPUs; stop other work on this machine", 100**others)
	}
	return nil
}

// mostOthers is the share of the CPUs that other programs may use.
const mostOthers = 0.2

// doubt records, once, a reason why figures are not reliable.
func (b *bench) doubt(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(b.doubts, text) {
		b.doubts = append(b.doubts, text)
	}
}

func (b *bench) add(rows ...row) { b.rows = append(b.rows, rows...) }

// quickly returns the first value for a quick run, else the second.
func quickly[T any](b *bench, quick, whole T) T {
	if b.quick {
		return quick
	}
	return whole
}
