package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/hone-go/hone/tool/load"
)

// Agent runs parts of plans. It does nothing but load: unless Prepare allows it, a coordinator
// cannot make it run a command or read a file.
type Agent struct {
	// Name is the agent's name in results. Zero: the machine's name.
	Name string
	// Version is the program's version, which must be the coordinator's.
	Version string
	// Prepare makes the plan from Fleet.Job. Required.
	Prepare func(job []byte) (load.Plan, error)
	// Said receives lines about what the agent does. It may be nil.
	Said func(string)

	clock func() time.Time // for tests; nil: steady
}

// silence is how long the other side may be silent; there are four pings a second.
const (
	silence  = 2500 * time.Millisecond
	pingEach = 250 * time.Millisecond
)

var errGone = fmt.Errorf("the coordinator has been silent for %v", silence)

func (a *Agent) hello() *hello {
	machine, err := os.Hostname()
	if err != nil {
		machine = "unknown"
	}
	return &hello{cmp.Or(a.Name, machine), machine, a.Version}
}

func (a *Agent) say(format string, args ...any) {
	if a.Said != nil {
		a.Said(fmt.Sprintf(format, args...))
	}
}

// service is the work on one link. Only serve calls its methods, except told.
type service struct {
	agent  *Agent
	link   *link
	clock  func() time.Time
	cancel context.CancelFunc // ends the run
	start  chan time.Time
	ended  chan done
	busy   bool
	leaves bool

	mu   sync.Mutex
	seen load.Progress // without its distributions, which are only lent
}

// serve handles a coordinator's messages until the coordinator has the result, or is gone. It reports
// whether there was a part for this agent.
func (a *Agent) serve(ctx context.Context, by *letters) (worked bool, err error) {
	messages, gone := make(chan message, mostQueued), make(chan error, 1)
	serving, end := context.WithCancel(context.Background())
	defer end()
	take := func(m message) {
		select {
		case messages <- m:
		case <-serving.Done():
		}
	}
	l := newLink(by, take, func(err error) { gone <- err })
	defer l.close()
	defer end() // runs before close, which waits for take
	s := &service{agent: a, link: l, clock: a.clock, start: make(chan time.Time, 1), ended: make(chan done, 1)}
	if s.clock == nil {
		s.clock = steady()
	}
	running, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	defer s.quit()
	l.send(message{Hello: a.hello()})
	quiet := time.NewTimer(silence)
	defer quiet.Stop()
	interrupted := ctx.Done()
	for {
		select {
		case m := <-messages:
			quiet.Reset(silence)
			if m.Stop && !s.busy {
				return worked, nil // the coordinator has the result, or does not need this agent
			}
			worked = worked || m.Job != nil
			s.take(running, m)
		case d := <-s.ended:
			s.busy = false
			d.Leaves = s.leaves
			l.send(message{Done: &d})
		case err := <-gone:
			return worked, fmt.Errorf("the coordinator is gone: %w", err)
		case <-quiet.C:
			if time.Since(by.heard()) < silence {
				quiet.Reset(silence) // a long message is being sent
				continue
			}
			return worked, errGone
		case <-interrupted:
			interrupted = nil
			s.leaves = true
			if cancel(); !s.busy {
				l.send(message{Done: &done{Leaves: true}})
			}
		}
	}
}

// quit ends the run and waits for it.
func (s *service) quit() {
	s.cancel()
	if s.busy {
		<-s.ended
	}
}

// take handles a message.
func (s *service) take(ctx context.Context, m message) {
	switch {
	case m.Ping > 0:
		s.mu.Lock()
		now := s.seen
		s.mu.Unlock()
		s.link.send(message{Pong: &pong{m.Ping, s.clock().UnixNano(), now}})
	case m.Job != nil && !s.busy:
		s.busy = true
		go func() { s.ended <- s.run(ctx, m.Job) }()
	case m.Start != 0:
		select {
		case s.start <- time.Now().Add(time.Unix(0, m.Start).Sub(s.clock())):
		default: // repeated
		}
	case m.Stop:
		s.cancel()
	}
}

// run runs a part.
func (s *service) run(ctx context.Context, j *job) done {
	plan, err := s.agent.Prepare(j.Plan)
	if err != nil {
		return done{Failure: failureOf(err)}
	}
	plan.Progress = s.told
	plan.Partition = load.Partition{
		Index: j.Index, Of: j.Of, Start: s.start,
		Ready:  func() { s.link.send(message{Ready: true}) },
		Closed: func(m *load.Measured) { s.link.send(message{Interval: m}) },
	}
	s.agent.say("part %d of %d of a load of %v", j.Index+1, j.Of, plan.Target)
	result, err := load.Run(ctx, plan)
	d := done{}
	if err != nil {
		d.Failure = failureOf(err)
	}
	if result != nil {
		d.Measured = result.Measured
	}
	return d
}

func (s *service) told(p load.Progress) {
	p.Latency, p.Service = nil, nil
	s.mu.Lock()
	s.seen = p
	s.mu.Unlock()
}

func failureOf(err error) *load.Error {
	if e := new(load.Error); errors.As(err, &e) {
		return e
	}
	return &load.Error{Kind: load.BadPlan, What: err.Error()}
}
