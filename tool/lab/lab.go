// Package lab rebuilds what five articles on fast Go services measured, and
// measures it again beside hone. One lab more, http, sets net/http, fasthttp and http1
// side by side.
//
//	report, err := lab.Run(ctx, lab.Plan{Stage: []string{"hone", "lab", "stage"}})
//
// A lab is one article's experiment. Its servers and its timed code are stages:
// each runs in a process of its own, with the same collector settings and the same
// processors, under the same load, in turn. They are written anew with the costs,
// and the faults, that the articles describe. A Row says what an article claims,
// what was measured here, and whether the claim holds.
//
// Figures of another machine cannot be repeated, so requests a second are told
// beside the article's and not judged; what is judged is how one thing compares
// with another, in every round of the same minutes.
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
	// Stage is a command that calls Serve with the last argument that is added to
	// it, its standard input and its standard output.
	Stage []string
	// Fasthttp is the program of bench/servers/fasthttp, for the lab "http". Empty: that
	// lab does without, and says so.
	Fasthttp string
	// Quick gives each lab a second or so: enough to see that it works. The figures
	// are rough, and the report says so.
	Quick bool
	// Say is told what is being done, a line at a time. Zero: nobody.
	Say func(line string)
	// Watch is told once a second how a load goes: what kind of load, and on which
	// stage. Zero: nobody.
	Watch func(what, stage string, now load.Progress)
}

// Report is what was found.
type Report struct {
	Schema string `json:"schema"`
	// Valid says that the load generator and the machine let the figures be what
	// they are. A claim that does not hold is a valid result.
	Valid          bool     `json:"valid"`
	InvalidReasons []string `json:"invalid_reasons"`
	Rough          bool     `json:"rough"` // Plan.Quick
	Labs           []*Lab   `json:"labs"`
}

// Lab is one article's experiment.
type Lab struct {
	Name     string    `json:"name"`
	Claim    string    `json:"claim"`
	Seconds  float64   `json:"seconds"` // that it took
	Rows     []Row     `json:"rows"`
	Profiles []Profile `json:"-"`

	doubts []string
}

// Row is one claim. A figure that cannot be had is nil.
type Row struct {
	What     string   `json:"what"`
	Article  *float64 `json:"article"` // nil: it gives no figure
	Unit     string   `json:"unit"`
	Measured *float64 `json:"measured"` // the median of all rounds
	Low      *float64 `json:"low"`      // of all rounds
	High     *float64 `json:"high"`
	// Ratio is Measured to what RatioTo names, such as "the article"; where that
	// begins with "less than", the other way round.
	Ratio   *float64 `json:"ratio"`
	RatioTo string   `json:"ratio_to"`
	Verdict Verdict  `json:"verdict"`
	Why     string   `json:"why"`
}

// Profile is where a stage's time or memory went under the lab's load.
type Profile struct {
	Of   string // the stage
	Kind probe.Kind
	Data []byte
}

// UnknownError is about a lab, or a stage, that there is not.
type UnknownError struct {
	Name  string
	Known []string
}

// Error says what there is.
func (e *UnknownError) Error() string {
	return fmt.Sprintf("lab: there is no %q; use one of %s", e.Name, strings.Join(e.Known, ", "))
}

// experiment is how one lab is run.
type experiment struct {
	name  string
	claim string
	run   func(context.Context, *bench) error
}

func experiments() []experiment {
	return []experiment{
		{"ladder", "Buffered I/O takes a framed TCP server from 185,000 to 270,000 requests/s, and sync.Pool to 292,000.", ladder},
		{"objects", "A pool makes a short-lived object 7 times cheaper (232 to 33 ns); of 8 bytes it costs more than it saves.", objects},
		{"workers", "A pool of goroutines runs 10,000 tasks in 5.6 ms that take 41 ms with a goroutine each.", tasks},
		{"contexts", "A framework's contexts come from a pool, which spares the collector and makes routing cheap.", contexts},
		{"conns", "With a pool of 2,000 connections, 500,000 requests take 3.73 s: more than 150,000 a second.", connections},
		{"idle", "A million connections with a goroutine each take tens of GB; epoll does without most of that.", idle},
		{"avatar", "A service of pictures goes from 897 to 1,204, to 22,889 and to 42,850 requests/s, by caching what it sends and by not logging.", avatars},
		{"http", "The same service on net/http, fasthttp and http1: no article's, but where the last three lead.", web},
	}
}

// Names are the labs, in the order in which they run.
func Names() []string {
	var names []string
	for _, e := range experiments() {
		names = append(names, e.name)
	}
	return names
}

// Run runs the labs, one after the other: eight to eleven minutes for all of them on
// two processors. Nothing is left running. When ctx ends, so does Run, within seconds,
// with its error. The report then has the labs that had ended; it is nil if none had.
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
			return r.partly(len(chosen)), fmt.Errorf("lab: %s: %w; run it alone to see whether it is the machine: hone lab %s", e.name, err, e.name)
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

// partly is the report of the labs that had ended before the others were given up; nil if
// there are none.
func (r *Report) partly(of int) *Report {
	if len(r.Labs) == 0 {
		return nil
	}
	r.InvalidReasons = append(r.InvalidReasons, fmt.Sprintf("broken off after %d of %d labs", len(r.Labs), of))
	return r
}

// bench is one lab on its way.
type bench struct {
	plan Plan
	lab  *Lab
	at   string // how far the labs are, for Say
}

func (b *bench) say(format string, args ...any) { b.plan.Say(b.at + fmt.Sprintf(format, args...)) }

// doubt notes, once, why figures are not to be believed.
func (b *bench) doubt(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(b.lab.doubts, text) {
		b.lab.doubts = append(b.lab.doubts, text)
	}
}

func (b *bench) add(rows ...Row) { b.lab.Rows = append(b.lab.Rows, rows...) }

// mostOthers is the part of the processors that other programs may use.
const mostOthers = 0.2

// alone doubts what was measured while others had the machine. A quick run is
// rough anyway.
func (b *bench) alone(m machine.Meanwhile) {
	if m.Others != nil && *m.Others > mostOthers && !b.plan.Quick {
		b.doubt("other programs used %.0f %% of the processors; let nothing else run on this machine", 100**m.Others)
	}
}

// quickly is one of two values: for a quick run, or for a whole one.
func quickly[T any](b *bench, quick, whole T) T {
	if b.plan.Quick {
		return quick
	}
	return whole
}
