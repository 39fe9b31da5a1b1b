// Package lab reproduces the measurements of five articles on fast Go services, and
// measures hone under the same load.
//
//	report, err := lab.Run(ctx, lab.Plan{Stage: []string{"lab", "stage"}})
//
// A lab is one article's experiment. Its servers and its timed code are stages: each runs
// in a separate process, with the same garbage collector settings and the same CPUs,
// under the same load, alternating. They are written anew with the costs, and the faults,
// that the articles describe. A Row holds an article's claim, the figure measured here,
// and whether the claim holds.
//
// Figures of another machine cannot be reproduced, so requests per second are shown next
// to the article's and not judged. A verdict is about how one thing compares with another
// in every round of the same minutes.
package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/machine"
	"github.com/hone-go/hone/tool/probe"
)

// Plan is what to run. Stage is required.
type Plan struct {
	// Names are the labs to run. Zero: all, in the order of Names.
	Names []string
	// Stage is a command that calls Serve with the last argument that Run appends, its
	// standard input and its standard output.
	Stage []string
	// Quick spends about a second on each lab, enough to see that it works. The figures
	// are rough, and the report says so.
	Quick bool
	// Say receives a line of progress at a time. Zero: none.
	Say func(line string)
	// Watch receives the progress of a load once a second: the kind of load, and the
	// stage. Zero: none.
	Watch func(what, stage string, now load.Progress)
}

// Report is the result of Run.
type Report struct {
	Schema string `json:"schema"`
	// Valid reports that neither the load generator nor the machine distorted the
	// figures. A claim that does not hold is a valid result.
	Valid          bool     `json:"valid"`
	InvalidReasons []string `json:"invalid_reasons"`
	Rough          bool     `json:"rough"` // Plan.Quick
	Labs           []*Lab   `json:"labs"`
}

// Lab is one article's experiment.
type Lab struct {
	Name     string    `json:"name"`
	Claim    string    `json:"claim"`
	Seconds  float64   `json:"seconds"` // how long the lab took
	Rows     []Row     `json:"rows"`
	Profiles []Profile `json:"-"`

	doubts []string
}

// Row is one claim. A figure that is not available is nil.
type Row struct {
	What     string   `json:"what"`
	Article  *float64 `json:"article"` // nil: it gives no figure
	Unit     string   `json:"unit"`
	Measured *float64 `json:"measured"` // the median of all rounds
	Low      *float64 `json:"low"`      // over all rounds
	High     *float64 `json:"high"`
	// Ratio is Measured divided by what RatioTo names, such as "the article"; if that
	// begins with "less than", the inverse.
	Ratio   *float64 `json:"ratio"`
	RatioTo string   `json:"ratio_to"`
	Verdict Verdict  `json:"verdict"`
	Why     string   `json:"why"`
}

// Profile shows where a stage spent time or memory under the lab's load.
type Profile struct {
	Of   string // the stage
	Kind probe.Kind
	Data []byte
}

// UnknownError reports a lab or stage that does not exist.
type UnknownError struct {
	Name  string
	Known []string
}

// Error lists the known names.
func (e *UnknownError) Error() string {
	return fmt.Sprintf("lab: no lab or stage %q; use one of %s", e.Name, strings.Join(e.Known, ", "))
}

// experiment describes how one lab is run.
type experiment struct {
	name  string
	claim string
	run   func(context.Context, *bench) error
}

func experiments() []experiment {
	return []experiment{
		{"ladder", "Buffered I/O takes a framed TCP server from 185,000 to 270,000 requests/s, and sync.Pool to 292,000.", ladder},
		{"objects", "A pool makes a short-lived object 7 times cheaper (232 to 33 ns); for 8 bytes it costs more than it saves.", objects},
		{"workers", "A pool of goroutines runs in 5.6 ms the 10,000 tasks that take 41 ms with one goroutine each.", tasks},
		{"contexts", "A framework pools its contexts, which relieves the garbage collector and makes routing cheap.", contexts},
		{"conns", "With a pool of 2,000 connections, 500,000 requests take 3.73 s: more than 150,000 per second.", connections},
		{"idle", "A million connections with a goroutine each take tens of GB; epoll saves most of that.", idle},
		{"avatar", "An avatar service goes from 898 to 1,204, to 22,889 and to 42,850 requests/s by caching what it sends and by not logging.", avatars},
	}
}

// Names returns the labs in the order in which they run.
func Names() []string {
	var names []string
	for _, e := range experiments() {
		names = append(names, e.name)
	}
	return names
}

// Run runs the labs, one after the other: about ten minutes for all of them on two CPUs.
// No process is left running. When ctx ends, Run returns its error within seconds.
// The report then has the labs that had ended; it is nil if there are none.
func Run(ctx context.Context, p Plan) (*Report, error) {
	if len(p.Stage) == 0 {
		return nil, errors.New("lab: the plan has no command for its stages; set Plan.Stage")
	}
	if p.Say == nil {
		p.Say = func(string) {}
	}
	if p.Watch == nil {
		p.Watch = func(string, string, load.Progress) {}
	}
	if len(p.Names) == 0 {
		p.Names = Names()
	}
	var chosen []experiment
	for _, name := range p.Names {
		i := slices.IndexFunc(experiments(), func(e experiment) bool { return e.name == name })
		if i < 0 {
			return nil, &UnknownError{name, Names()}
		}
		chosen = append(chosen, experiments()[i])
	}
	r := &Report{Schema: "hone.lab/1", InvalidReasons: []string{}, Rough: p.Quick}
	for i, e := range chosen {
		began, before := time.Now(), machine.Measure()
		b := &bench{plan: p, lab: &Lab{Name: e.name, Claim: e.claim, Rows: []Row{}}, at: fmt.Sprintf("%d/%d  %-8s  ", i+1, len(chosen), e.name)}
		err := e.run(ctx, b)
		if ctx.Err() != nil {
			return r.partly(len(chosen)), context.Cause(ctx)
		}
		if err != nil {
			return r.partly(len(chosen)), fmt.Errorf("lab: %s: %w; run it alone to see whether the machine is the cause: lab %s", e.name, err, e.name)
		}
		b.alone(before.Between(machine.Measure()))
		b.lab.Seconds = time.Since(began).Seconds()
		r.Labs = append(r.Labs, b.lab)
		for _, doubt := range b.lab.doubts {
			r.InvalidReasons = append(r.InvalidReasons, e.name+", "+doubt)
		}
	}
	r.Valid = len(r.InvalidReasons) == 0
	return r, nil
}

// partly returns the report of the labs that ended before Run stopped; nil if there are
// none.
func (r *Report) partly(of int) *Report {
	if len(r.Labs) == 0 {
		return nil
	}
	r.InvalidReasons = append(r.InvalidReasons, fmt.Sprintf("interrupted after %d of %d labs", len(r.Labs), of))
	return r
}

// bench is one running lab.
type bench struct {
	plan Plan
	lab  *Lab
	at   string // which of how many labs this is, for Say
}

func (b *bench) say(format string, args ...any) { b.plan.Say(b.at + fmt.Sprintf(format, args...)) }

// doubt records, once, a reason why figures are not reliable.
func (b *bench) doubt(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(b.lab.doubts, text) {
		b.lab.doubts = append(b.lab.doubts, text)
	}
}

func (b *bench) add(rows ...Row) { b.lab.Rows = append(b.lab.Rows, rows...) }

// mostOthers is the share of the CPUs that other programs may use.
const mostOthers = 0.2

// alone doubts what was measured while other programs used the CPUs. A quick run is rough
// anyway.
func (b *bench) alone(m machine.Meanwhile) {
	if m.Others != nil && *m.Others > mostOthers && !b.plan.Quick {
		b.doubt("other programs used %.0f %% of the CPUs; stop other work on this machine", 100**m.Others)
	}
}

// quickly returns the first value for a quick run, else the second.
func quickly[T any](b *bench, quick, whole T) T {
	if b.plan.Quick {
		return quick
	}
	return whole
}
