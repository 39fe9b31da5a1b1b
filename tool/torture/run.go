package torture

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/trial"
)

// Plan is what to attack, and how.
type Plan struct {
	// Load has the target and its request. Required.
	Load load.Plan
	// Server is how to start the server, which is then owned. Zero: it runs already.
	Server trial.Server
	// PID is the process of a server that runs already. Zero: it is not watched.
	PID int
	// Profiles is where the server has net/http/pprof, as in 127.0.0.1:6060. Zero: a target of HTTP is asked.
	Profiles string
	// Scenarios are those to run. Nil: all.
	Scenarios []Scenario
	// Anywhere allows addresses that are not private.
	Anywhere bool
	// Seed is where randomness comes from.
	Seed uint64
	// Limits bound every scenario.
	Limits Limits
	// Baseline is how long bystanders are watched before the attacks. Zero: 2 s.
	Baseline time.Duration
	// Progress receives each result as it comes, and what runs, from one goroutine at a time. It
	// must return soon. Zero: none.
	Progress func(Progress)
}

// Progress is the state of a run.
type Progress struct {
	Doing string  // the scenarios that run
	Done  int     // of Of
	Of    int     // scenarios
	Made  *Result // the newest result; nil: none has come
}

const defaultBaseline = 2 * time.Second

// run is a running Plan.
type run struct {
	Plan
	target  *target
	process *Process // nil: not known
	crowd   crowd
	report  *Report
	usual   float64        // the process's CPU share before the attacks, while nobody asks
	asked   float64        // and while the bystanders ask
	gone    string         // why there is nothing left to attack
	falls   map[string]int // falls in two of two tries, by symptom
}

var errNoBaseline = errors.New("the server does not serve good requests before any attack")

// Run attacks the target and returns what became of it. When ctx ends, it returns the results of the
// scenarios that had ended, and says so. An error means that there was nothing to attack.
func Run(ctx context.Context, p Plan) (*Report, error) {
	if p.Baseline == 0 {
		p.Baseline = defaultBaseline
	}
	p.Limits = p.Limits.complete()
	if p.Scenarios == nil {
		p.Scenarios = Scenarios()
	}
	r := &run{Plan: p, falls: map[string]int{}}
	var err error
	if r.target, err = newTarget(p.Load, p.Anywhere); err != nil {
		return nil, err
	}
	switch {
	case p.Server.Command != "":
		r.process = &Process{server: p.Server, target: r.target}
		if err := r.process.start(ctx); err != nil {
			return nil, err
		}
		defer r.process.stop()
	case p.PID != 0:
		r.process = &Process{pid: p.PID}
		if _, ok := r.process.Used(); !ok {
			return nil, fmt.Errorf("%w: process %d has ended, belongs to another user, or this system does not tell", errNotWatched, p.PID)
		}
	}
	r.target.learnMarks(ctx, p.Limits.Answer)
	r.target.learnHTTP2(ctx, p.Limits.Answer)
	r.target.learnProfiles(ctx, p.Profiles)
	r.report = newReport(p, r.target)
	began := time.Now()
	r.crowd.target = r.target
	r.crowd.patience = p.Limits.Answer + p.Limits.Answer/2
	r.crowd.start(ctx, p.Seed)
	defer r.crowd.end()
	if err := r.learn(ctx); err != nil {
		return nil, err
	}
	r.attackAll(ctx)
	r.report.Took = time.Since(began).Seconds()
	var own runtime.MemStats
	runtime.ReadMemStats(&own)
	r.report.Own = own.Sys
	if ctx.Err() != nil {
		r.report.invalid("interrupted: let it run to the end")
	}
	return r.report, nil
}

// Baseline is the name of the result that says that answers were mixed up before any attack.
const Baseline = "baseline"

// learn learns what the server answers, and how fast. An answer that may be another client's is a fall
// already, as in a scenario: in two of two tries.
func (r *run) learn(ctx context.Context) error {
	began := time.Now()
	err := r.baseline(ctx)
	if !errors.Is(err, errAlien) {
		return err
	}
	words := func() string {
		b := r.report.Baseline
		return fmt.Sprintf("bystanders: %d of %d answers are wrong before any attack (%v)", b.Wrong, b.Asked, errAlien)
	}
	made := Result{
		Name: Baseline, Title: "Bystanders ask good requests before any attack.", Tries: 2,
		Verdict: Slower, Words: "all answers are right", Notes: []string{"the first of two tries: " + words()},
	}
	if err = r.baseline(ctx); errors.Is(err, errAlien) {
		made.Verdict, made.Words, made.Notes, err = Fell, words(), nil, nil
		r.gone = "not tried: answers are mixed up before any attack"
	}
	if err == nil {
		made.Took, made.Bystanders = time.Since(began).Seconds(), r.report.Baseline
		r.made(made)
	}
	return err
}

func (r *run) baseline(ctx context.Context) error {
	r.crowd.locked(func() { r.crowd.learns = true })
	r.crowd.begin()
	half := r.Baseline / 2
	learnt := r.settled(ctx, r.crowd.failure) && pause(ctx, half)
	r.report.Baseline = r.crowd.soFar()
	switch err := r.crowd.failure(); {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, errAlien):
		return errAlien
	case !learnt && err != nil:
		return fmt.Errorf("%w: %w", errNoBaseline, err)
	case !learnt:
		return fmt.Errorf("%w: no answer in time; does it serve several clients at once?", errNoBaseline)
	}
	refused := ""
	r.crowd.locked(func() {
		if r.crowd.learns = false; r.target.known.refused {
			refused = r.target.known.status
		}
	})
	if refused != "" {
		return fmt.Errorf("%w: it refuses the request (%s); choose one that it serves, log in, or say with --status that this is a good answer", errNoBaseline, refused)
	}
	r.crowd.begin()
	if r.asked = r.process.CPU(ctx, half); r.asked < 0 {
		pause(ctx, half)
	}
	r.report.Baseline = r.crowd.soFar()
	switch b := r.report.Baseline; {
	case errors.Is(r.crowd.failure(), errAlien):
		return errAlien
	case b.Wrong+b.Lost+b.Refused+b.Silent > 0:
		return fmt.Errorf("%w: %d of %d failed (%s)", errNoBaseline, b.Wrong+b.Lost+b.Refused+b.Silent, b.Asked, b.First)
	}
	r.usual = r.idle(ctx)
	return ctx.Err()
}

// idle returns the share of one CPU that the process uses while nobody asks; negative: not known.
func (r *run) idle(ctx context.Context) float64 {
	r.crowd.pause(ctx)
	defer r.crowd.goOn()
	least, _ := r.process.busy(ctx, r.usual+spins, r.Limits.Gone)
	return least
}

// attackAll runs the scenarios: one after the other, then those that wait, together, and at last
// those that end the server.
func (r *run) attackAll(ctx context.Context) {
	var alone, waiting, ending []Scenario
	for _, s := range r.Scenarios {
		switch why := r.unfit(s); {
		case why != "":
			r.made(Result{Name: s.Name, Title: s.Title, Verdict: NotApplicable, Words: why})
		case s.Waits && s.Access == Outside:
			waiting = append(waiting, s)
		case s.Access == Owned: // these end the server
			ending = append(ending, s)
		default:
			alone = append(alone, s)
		}
	}
	for one := range slices.Chunk(alone, 1) {
		r.together(ctx, one)
	}
	r.together(ctx, waiting)
	for one := range slices.Chunk(ending, 1) {
		r.together(ctx, one)
	}
	r.report.sort(r.Scenarios)
}

// unfit returns why a scenario does not apply; empty: it does.
func (r *run) unfit(s Scenario) string {
	switch {
	case s.Kinds&r.target.kind == 0:
		return "for another kind of target"
	case s.Whole && r.target.endless():
		return "answers that are event streams have no end"
	case s.TLS && r.target.tls == nil:
		return "only for TLS"
	case s.HTTP2 && !r.target.http2:
		return "only for servers that answer the request over HTTP/2, too"
	case s.Access == Owned && !r.process.owned(), s.Access == Watched && r.process == nil:
		return "needs a process that is " + s.Access.String()
	}
	return ""
}

// together runs scenarios at the same time. When somebody suffers beside several, it runs them by halves to
// find out who is at fault: as falls end soon, that waits for those that survive. Where a fall shows only
// after the wait, each is tried alone.
func (r *run) together(ctx context.Context, scenarios []Scenario) {
	if len(scenarios) == 0 || ctx.Err() != nil {
		return
	}
	var names []string
	for _, s := range scenarios {
		if names = append(names, s.Name); r.gone != "" {
			r.made(Result{Name: s.Name, Title: s.Title, Verdict: NotFoundOut, Words: r.gone})
		}
	}
	if r.gone != "" {
		return
	}
	r.say(strings.Join(names, ", "))
	results, early := r.try(ctx, scenarios)
	if len(scenarios) == 1 {
		results[0] = r.certain(ctx, scenarios, results[0])
	}
	switch {
	case ctx.Err() != nil: // who was cut off, or not asked again, says nothing about the server
	case len(scenarios) == 1, !slices.ContainsFunc(results, func(f Result) bool { return f.Verdict == Fell }):
		for _, made := range results {
			r.made(made)
		}
	default:
		r.recover(ctx)
		part := 1
		if early {
			part = (len(scenarios) + 1) / 2
		}
		for some := range slices.Chunk(scenarios, part) {
			r.together(ctx, some)
		}
	}
}

const sameFalls = 3 // in two of two tries, after which one try is enough for the same symptom

// symptom is how a server fell, without figures.
func symptom(words string) string {
	first, _, _ := strings.Cut(words, ";")
	return strings.Join(strings.FieldsFunc(first, unicode.IsDigit), "")
}

// certain tries a scenario once more when the server fell, unless it falls so all the time.
func (r *run) certain(ctx context.Context, one []Scenario, first Result) Result {
	if first.Verdict != Fell || ctx.Err() != nil || !r.recover(ctx) {
		return first // without a doubt, if it did not come back
	}
	if r.falls[symptom(first.Words)] >= sameFalls {
		first.Notes = append(first.Notes, fmt.Sprintf("not tried again: %d scenarios fell like this in two of two tries", sameFalls))
		return first
	}
	again, _ := r.try(ctx, one)
	second := again[0]
	second.Tries = 2
	if second.Verdict == Fell {
		r.falls[symptom(second.Words)]++
		r.recover(ctx)
		return second
	}
	// Once is chance: what was felt is shown, but not as a fall.
	second.Notes = append(second.Notes, "the first of two tries: "+first.Words)
	if second.Verdict == Survived {
		second.Verdict = Slower
	}
	return second
}

// recover starts an owned server again, so that the next try meets a fresh one, or waits until a
// server serves again. It reports whether it does.
func (r *run) recover(ctx context.Context) bool {
	if r.process.owned() {
		r.crowd.pause(ctx) // who closes a connection first keeps its port busy
		last, _ := r.process.ended()
		r.process.child.Load().Kill()
		err := r.process.start(ctx)
		for until := time.Now().Add(portBusy); err != nil && time.Now().Before(until) && pause(ctx, time.Second); {
			err = r.process.start(ctx)
		}
		r.crowd.goOn()
		if err != nil {
			r.gone = fmt.Sprintf("the server could not be started again: %s; before, it said: %s", plain(err), shortened(last))
			return false
		}
	}
	if r.settled(ctx, ctx.Err) {
		return true
	}
	r.gone = "the server had not come back from the scenario before"
	return false
}

// settled waits several times for an answer to every bystander, as a round may end within a wait or on a
// busy machine, unless there is a reason to give up.
func (r *run) settled(ctx context.Context, hopeless func() error) bool {
	for range 4 {
		if r.crowd.settled(ctx, nil) {
			return true
		}
		if hopeless() != nil {
			return false
		}
	}
	return false
}

// portBusy is how long a server is started again and again that does not come up: without SO_REUSEADDR
// it does not get its port while connections of the one before are in TIME_WAIT, for 60 s.
const portBusy = 65 * time.Second

// lookEvery is how often a try is looked at that waits. What is seen twice is certain: after a pause of
// this whole program, it knows by then how late it is itself.
const lookEvery = 250 * time.Millisecond

// try runs scenarios at the same time, once. If they wait, it ends early as soon as a fall is certain.
func (r *run) try(ctx context.Context, scenarios []Scenario) (results []Result, endedEarly bool) {
	limit := r.Limits.Within
	if scenarios[0].Waits {
		limit = r.Limits.Wait + r.Limits.Wait/10 + r.Limits.Answer
	}
	if scenarios[0].Access == Owned {
		limit += r.Limits.Stop
	}
	r.crowd.settled(ctx, r.process) // as when the process is looked at again: bystanders have descriptors, too
	began := time.Now()
	watched := r.process.follow(ctx, r.Limits)
	if scenarios[0].Alone {
		r.crowd.pause(ctx)
	}
	r.crowd.begin()
	attack, cancel := context.WithTimeout(ctx, limit)
	var early time.Duration // after which a fall was certain; zero: it was not
	late := 0.0             // hone itself, until then
	var looking sync.WaitGroup
	if scenarios[0].Waits {
		looking.Go(func() {
			for seen := 0; seen < 2 && pause(attack, lookEvery); {
				felt := r.crowd.soFar()
				if seen++; !r.suffers(felt, scenarios[0]) {
					seen = 0
				}
				if seen == 2 {
					early, late = time.Since(began), felt.Lag
					cancel()
				}
			}
		})
	}
	results = atOnce(len(scenarios), func(i int) Result { return r.attack(attack, scenarios[i]) })
	cancel()
	looking.Wait()
	r.crowd.goOn()
	over := time.Now()
	settled := r.crowd.settled(ctx, r.process)
	then := aftermath{settled: settled, after: time.Since(over), together: len(scenarios), early: early}
	felt := r.crowd.soFar()
	if early > 0 {
		felt.Lag = late
	}
	used := watched()
	if used != nil {
		used.Idle = r.idle(ctx)
	}
	for i, s := range scenarios {
		made := &results[i]
		made.Took, made.Bystanders, made.Used, made.Tries = time.Since(began).Seconds(), felt, used, 1
		r.judge(made, s, then)
		then.told = then.told || made.Verdict == Slower
	}
	return results, early > 0
}

// attack runs one scenario.
func (r *run) attack(ctx context.Context, s Scenario) Result {
	name := fnv.New64a()
	name.Write([]byte(s.Name))
	a := &Arena{
		Limits: r.Limits,
		Rand:   rand.New(rand.NewPCG(r.Seed, name.Sum64())), Server: r.process, target: r.target, spins: max(r.asked+spins, 3*r.asked), conns: map[*Conn]struct{}{},
	}
	found := s.Attack(ctx, a)
	a.close()
	return Result{Name: s.Name, Title: s.Title, Verdict: found.Verdict, Words: found.Words, Notes: a.notes, Inputs: a.inputs}
}

func (r *run) say(doing string) { r.tell(Progress{Doing: doing}) }

func (r *run) made(result Result) {
	r.report.Results = append(r.report.Results, result)
	r.tell(Progress{Made: &result})
}

func (r *run) tell(now Progress) {
	now.Done, now.Of = len(r.report.Results), max(len(r.Scenarios), len(r.report.Results))
	if r.Progress != nil {
		r.Progress(now)
	}
}
