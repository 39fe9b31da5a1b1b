package race

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/bench/service"
)

// Scenario is one way of using a server.
type Scenario struct {
	Name     string
	Conns    int     // connections that ask
	Depth    int     // requests under way on each
	Rate     float64 // requests a second of all; 0: the next as soon as an answer is there
	Pinned   bool    // the server on one CPU, the client on another
	Loops    int     // the server's
	Idle     int     // connections beside them that have been served once and wait
	Sleepers int     // connections beside them whose handler sleeps for every request
	Levels   []int   // how many idle connections to read the memory of, and nothing else
	Ask      string  // the name of a web.Question, or web.Socket; empty: hone's frames
	Wrk      bool    // asked by wrk instead of this project's client, which checks that one
	Calls    bool    // for the system calls of a request, and nothing else
	// Instructions is for those of a message, and nothing else.
	Instructions bool
	Crowd        int // connections that are pushed to
	Deaf         int // and those that do not read
	Rounds       int // in how many of the first rounds; 0: in all
}

// sleepTime is what a sleeping handler sleeps.
const sleepTime = 50 * time.Millisecond

// Scenarios are told apart by what they make dear: A waking up, A2 the same
// unpinned and on two loops, B the code itself, C the memory that a crowd is
// spread over, O sleeping and waking at a rate, E a few that ask among many that
// do not; idle is what an idle connection costs, and S what a handler that sleeps
// costs others.
func Scenarios() []Scenario {
	return []Scenario{
		{Name: "A", Conns: 100, Depth: 1, Pinned: true, Loops: 1},
		{Name: "A2", Conns: 100, Depth: 1, Loops: 2},
		{Name: "B", Conns: 100, Depth: 64, Pinned: true, Loops: 1},
		{Name: "C", Conns: 2000, Depth: 1, Pinned: true, Loops: 1},
		{Name: "O", Conns: 100, Depth: 64, Rate: 50_000, Pinned: true, Loops: 1},
		{Name: "E", Conns: 150, Depth: 1, Pinned: true, Loops: 1, Idle: 14_850},
		{Name: "S", Conns: 40, Depth: 64, Rate: 2000, Pinned: true, Loops: 2, Sleepers: 4},
		{Name: "idle", Levels: []int{1000, 5000, 15_000}},
	}
}

// Choose returns those of all that have these names, or all without any.
func Choose(all []Scenario, names []string) ([]Scenario, error) {
	if len(names) == 0 {
		return all, nil
	}
	var known []string
	for _, s := range all {
		known = append(known, s.Name)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("there is no scenario %q; use some of %s", name, strings.Join(known, ","))
		}
	}
	return slices.DeleteFunc(all, func(s Scenario) bool { return !slices.Contains(names, s.Name) }), nil
}

// Small is the scenario with few connections that do nothing, for a quick look.
func (s Scenario) Small() Scenario {
	s.Idle, s.Crowd, s.Deaf = min(s.Idle, 1000), min(s.Crowd, 1000), min(s.Deaf, 50)
	if len(s.Levels) > 0 {
		s.Levels = []int{min(1000, s.Levels[0])}
	}
	return s
}

// levelName is the scenario under which a level of idle connections is reported.
func (s Scenario) levelName(level int) string { return fmt.Sprintf("%s-%dk", s.Name, level/1000) }

// placed says where server and client run: on a machine with one CPU both are
// there.
func (s Scenario) placed(cpus []int) (server fleet.How, clientCPU, clientProcs int) {
	server = fleet.How{CPU: fleet.AnyCPU, Loops: s.Loops, TLS: s.secure()}
	if s.Sleepers > 0 {
		server.Sleep = sleepTime
	}
	if !s.Pinned || len(cpus) < 2 {
		return server, fleet.AnyCPU, min(2, len(cpus))
	}
	server.CPU = cpus[0]
	return server, cpus[1], 1
}

// title says what the scenario is.
func (s Scenario) title(cpus []int) string {
	if len(s.Levels) > 0 {
		return fmt.Sprintf("memory of %v idle connections that were served once%s, by connection", s.Levels, s.asked())
	}
	if s.Deaf > 0 {
		return fmt.Sprintf("%d bytes pushed again and again to %d connections that read and %d that do not, until these are closed", service.LongPush, s.Crowd, s.Deaf)
	}
	if s.Crowd > 0 {
		return fmt.Sprintf("%d bytes pushed to %d connections; then, beside that, %d connections that ask %.0f times a second, not pinned, %d loops",
			service.PushedSize, s.Crowd, s.Conns, s.Rate, s.Loops)
	}
	t := fmt.Sprintf("%d connections × %d outstanding", s.Conns, s.Depth)
	if s.Wrk {
		t = fmt.Sprintf("%d connections of wrk", s.Conns)
	}
	if s.Rate > 0 {
		t = fmt.Sprintf("%d connections, %.0f requests/s", s.Conns, s.Rate)
	}
	if s.Idle > 0 {
		t += fmt.Sprintf(", and %d that are idle", s.Idle)
	}
	if s.Sleepers > 0 {
		t += fmt.Sprintf(", beside %d whose handler sleeps %v for every request", s.Sleepers, sleepTime)
	}
	t += s.asked()
	switch server, client, _ := s.placed(cpus); {
	case !s.Pinned:
		t += ", not pinned"
	case client == fleet.AnyCPU:
		t += ", NOT PINNED, since there is one CPU"
	default:
		t += fmt.Sprintf(", server on CPU %d, client on CPU %d", server.CPU, client)
	}
	if s.Loops == 1 {
		return t + ", one loop"
	}
	return t + fmt.Sprintf(", %d loops", s.Loops)
}
