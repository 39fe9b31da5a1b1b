package engine

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// The model below is everything that can happen to a connection, reduced to the facts:
// what its own steps do, and what the peer, user code, the sweeper and a shutdown may do
// between any two of them. It is small enough to visit every reachable state, and the
// invariants must hold in each.

// modelled is one state of a connection. It is comparable, so that visited states are
// recognised.
type modelled struct {
	facts
	input    int8 // messages that have arrived and are unread; see facts.ready for those that were read
	told     int8 // how often the peer was refused
	gave     bool // user code has had the socket
	known    bool // OnOpen was called
	closed   int8 // how often OnClose was called
	ended    bool
	violated string // the violated invariant
}

func (m modelled) String() string { return fmt.Sprintf("%+v, next %d", m.facts, next(m.facts)) }

// with returns m with a change.
func (m modelled) with(change func(*modelled)) modelled {
	change(&m)
	return m
}

// fail is connRef.fail.
func (m *modelled) fail(why Reason) {
	if m.why == 0 || m.why == PeerClosed {
		m.why = why
	}
}

// decider is next, or a mutant of it.
type decider func(facts) step

// broken returns the invariant that a step would violate, or "".
func (m modelled) broken(st step) string {
	serves := st == stepServe || st == stepRead
	leaves := st == stepShut || st == stepHandOver || st == stepEnd && !m.dead
	switch {
	case m.dead && m.phase != takenOver && st != stepEnd:
		return "a dead connection does not end at once"
	case m.phase == takenOver && st != waitForUser:
		return "touches a socket of user code"
	case serves && (!m.opened || m.phase != serving):
		return "serves in the wrong phase"
	case serves && (m.stopped || m.promised || ends(m.why)):
		return "serves after an error, a refusal or a promise"
	case serves && m.paused:
		return "serves without room"
	case st == stepRead && !m.drains:
		return "reads without need"
	case st == waitForBytes && (m.why != 0 || m.draining) && !(m.drains && m.expects && m.why == ShuttingDown):
		return "waits for bytes with a reason to end"
	case (st == waitForBytes || st == waitForRoom) && m.suspect:
		return "waits with a pending suspicion"
	case (st == waitForBytes || st == waitForRoom) && (m.stopped || m.promised):
		return "waits for input that will not be served"
	case st == stepFinish && m.why == ShuttingDown && !m.stopped && !m.promised && (m.ready || m.unread):
		return "a drain drops received input"
	case st == stepFinish && m.why == ShuttingDown && !m.stopped && !m.promised && m.expects:
		return "a drain drops a message that it waits for"
	case st == stepEnd && !m.dead && m.why == PeerClosed && m.partial && !m.stopped && !m.said:
		return "says nothing to half a message"
	case m.unfinished && (st == stepShut || st == stepEnd && !m.dead):
		return "gives an unfinished reply an end"
	case st == stepReset && !(m.unfinished && m.received && m.settled):
		return "a reset destroys replies"
	case st == stepRefuse && (m.told > 0 || m.said):
		return "refuses twice"
	case st == stepRefuse && (m.promised || m.gave):
		return "refuses after a promise"
	case (st == stepRefuse || leaves) && !m.settled:
		return "ends before all is settled"
	case st == stepShut && m.told == 0 && !m.said && (m.words || !needsNoRefusal(m.why)):
		return "ends without a refusal"
	case m.promised && (st == stepShut || st == stepEnd && !m.dead):
		return "ends with a promised hand-over"
	case st == stepHandOver && !m.promised:
		return "hands over an unrequested socket"
	case (st == stepFinish || st == stepClose) && m.why == 0 && !m.promised && !m.stopped:
		return "ends without a reason"
	}
	return ""
}

// carriedOut returns the states that a step can lead to.
func (m modelled) carriedOut(st step) (all []modelled) {
	into := func(change func(*modelled)) { all = append(all, m.with(change)) }
	enter := func(p phase) {
		into(func(m *modelled) {
			if p < m.phase {
				m.violated = "a phase goes back"
			}
			m.phase = p
		})
	}
	switch st {
	case stepOpen:
		into(func(m *modelled) { m.opened, m.known = true, true })
		into(func(m *modelled) { m.opened = true; m.fail(Malformed); m.dead = true }) // a failed handshake
		into(func(m *modelled) { m.opened, m.known = true, true; m.fail(TooManyConns) })
	case stepReconsider:
		into(func(m *modelled) { m.suspect = false })
		into(func(m *modelled) { m.suspect, m.expects = false, false; m.fail(IdleTimeout) })
		into(func(m *modelled) { m.suspect = false; m.fail(Displaced) })
	case stepDrain:
		into(func(m *modelled) { m.drains = true; m.fail(ShuttingDown); m.unread = m.input > 0 })
	case stepRead:
		into(func(m *modelled) { m.unread, m.expects = false, false; m.fail(PeerClosed) })
		into(func(m *modelled) { m.fail(PeerReset); m.dead = true })
		fallthrough
	case stepServe:
		return append(all, m.visits(st == stepRead)...)
	case stepFinish:
		enter(finishing)
	case stepClose:
		enter(closing)
	case stepRefuse:
		into(func(m *modelled) { m.said = true; m.told++ })
		into(func(m *modelled) { m.said = true; m.told++; m.settled = false })
	case stepShut:
		enter(lingering)
	case stepReset:
		into(func(m *modelled) { m.dead = true })
	case stepHandOver:
		enter(takenOver)
	case stepEnd:
		into(func(m *modelled) {
			m.ended = true
			if m.known {
				m.closed++
			}
		})
	}
	return all
}

// visits returns the states after one visit of the protocol.
func (m modelled) visits(read bool) (all []modelled) {
	if read && m.input > 0 {
		m.input--
		m.unread = m.drains && m.input > 0
	}
	m.ready, m.partial, m.expects = false, false, false
	for _, settled := range []bool{true, false} {
		out := m.with(func(m *modelled) { m.settled = m.settled && settled })
		for _, why := range []Reason{0, Malformed, ShuttingDown, IdleTimeout, Panicked} {
			for _, takeOver := range []bool{false, true} {
				for _, closed := range []Reason{0, ClosedHere, ShuttingDown} { // by the handler
					all = append(all, out.with(func(m *modelled) {
						if closed != 0 {
							m.fail(closed)
						}
						switch after(result{why: why, takeOver: takeOver, ending: ends(m.why), hungry: true}) {
						case stopVisits:
							m.stopped = true
							m.said = m.said || needsNoRefusal(why)
							m.fail(why)
						case promise:
							m.promised = true
						}
					}))
				}
			}
		}
		all = append(all, out.with(func(m *modelled) { m.ready, m.paused = true, !out.settled })) // no room for the rest
		all = append(all, out.with(func(m *modelled) { m.partial = true }))                       // half a message
		all = append(all, out.with(func(m *modelled) { m.partial, m.expects = true, true }))
		all = append(all, out.with(func(m *modelled) { // a panic after a part of the reply was sent
			m.stopped, m.said, m.unfinished = true, true, true
			m.fail(Panicked)
		}))
	}
	return all
}

// happens returns the states that others can cause at any moment.
func (m modelled) happens() (all []modelled) {
	into := func(change func(*modelled)) { all = append(all, m.with(change)) }
	into(func(m *modelled) { m.draining = true })
	into(func(m *modelled) { m.dead, m.why = true, Forced })
	into(func(m *modelled) { m.fail(WriteStall); m.dead = true })
	for _, why := range []Reason{ShuttingDown, ClosedHere, IdleTimeout, PeerReset} {
		into(func(m *modelled) { m.fail(why) }) // Conn.Close
	}
	if m.phase == serving && !m.said && !ends(m.why) {
		into(func(m *modelled) { m.fail(ClosedHere); m.words = true }) // Conn.End
	}
	if m.phase == serving {
		into(func(m *modelled) { m.suspect = true })
		into(func(m *modelled) { m.input = min(m.input+1, 2) })
	}
	if m.phase <= closing && m.opened && !m.said {
		into(func(m *modelled) { m.settled = false }) // a push
	}
	return all
}

// resolved returns the states after a wait is over.
func (m modelled) resolved(st step) (all []modelled) {
	into := func(change func(*modelled)) { all = append(all, m.with(change)) }
	switch st {
	case waitForUser:
		into(func(m *modelled) { m.fail(ClosedHere); m.gave, m.ended = true, true; m.closed++ })
		for _, left := range []bool{false, true} { // or it comes back
			into(func(m *modelled) { m.phase, m.promised, m.ready = serving, false, left })
		}
	case waitForPeer:
		into(func(m *modelled) { m.dead = true })
	case waitForSettled:
		into(func(m *modelled) { m.settled = true })
	case waitForReceipt:
		into(func(m *modelled) { m.received = true })
		into(func(m *modelled) { m.dead = true }) // the peer reads nothing
	case waitForRoom:
		into(func(m *modelled) { m.paused = false })
	case waitForBytes:
		into(func(m *modelled) { m.fail(PeerClosed); m.expects = false })
		into(func(m *modelled) { m.fail(PeerReset); m.dead = true })
		if m.drains {
			into(func(m *modelled) { m.unread = true })
		} else if m.input > 0 {
			all = append(all, m.visits(true)...)
		}
	}
	return all
}

// explore visits every reachable state and returns how many there are, and the first one
// that violates an invariant.
func explore(next decider) (states int, found string) {
	start := modelled{facts: facts{settled: true}}
	proxied := start.with(func(m *modelled) { m.opened, m.known = true, true })
	seen := map[modelled]bool{start: true, proxied: true}
	queue := []modelled{start, proxied}
	for len(queue) > 0 {
		m := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if m.ended {
			if m.closed > 1 || m.known != (m.closed == 1) {
				return len(seen), fmt.Sprintf("OnClose %d times for known %v: %v", m.closed, m.known, m)
			}
			continue
		}
		st := next(m.facts)
		if why := m.broken(st); why != "" {
			return len(seen), fmt.Sprintf("%s: %v", why, m)
		}
		following := append(m.carriedOut(st), m.happens()...)
		if st <= waitForBytes {
			following = append(following, m.resolved(st)...)
		}
		for _, n := range following {
			if n.violated != "" {
				return len(seen), fmt.Sprintf("%s: %v", n.violated, m)
			}
			if !seen[n] {
				seen[n] = true
				queue = append(queue, n)
			}
		}
	}
	for m := range seen {
		if why := m.endsAlone(next); why != "" {
			return len(seen), why
		}
	}
	return len(seen), ""
}

// endsAlone reports whether the connection ends when only the events occur for which it
// waits, whatever its steps do.
func (m modelled) endsAlone(next decider) string {
	for range 40 {
		if m.ended {
			return ""
		}
		st := next(m.facts)
		following := m.carriedOut(st)
		if st <= waitForBytes {
			following = m.resolved(st)
		}
		if len(following) == 0 || following[0] == m {
			return fmt.Sprintf("stuck in step %d: %v", st, m)
		}
		m = following[0]
	}
	return fmt.Sprintf("steps without an end: %v", m)
}

func TestLifecycleInvariants(t *testing.T) {
	states, found := explore(next)
	if found != "" {
		t.Error(found)
	}
	if t.Logf("%d states", states); states < 1000 {
		t.Errorf("the model reaches only %d states", states)
	}
}

// Each mutant has a bug that the invariants must detect. The first three are how the
// engines behaved before they shared next.
func TestLifecycleInvariantsKillMutants(t *testing.T) {
	// when returns a mutant that decides otherwise where a condition holds.
	when := func(holds func(facts) bool, otherwise step) decider {
		return func(f facts) step {
			if holds(f) {
				return otherwise
			}
			return next(f)
		}
	}
	is := func(st step) func(facts) bool { return func(f facts) bool { return next(f) == st } }
	mutants := map[string]decider{
		"a close for ShuttingDown waits for bytes": when(func(f facts) bool { return is(stepDrain)(f) && !f.draining }, waitForBytes),
		"a drain refuses before the hand-over": func(f facts) step {
			if f.why == ShuttingDown {
				f.promised = false
			}
			return next(f)
		},
		"a drain refuses again after the protocol": func(f facts) step {
			if f.drains {
				f.said = f.said && !f.stopped
			}
			return next(f)
		},
		"continues to serve after an error": func(f facts) step { f.stopped = false; return next(f) },
		"serves without room":               func(f facts) step { f.paused = false; return next(f) },
		"serves before it is open":          func(f facts) step { f.opened = true; return next(f) },
		"a dead connection waits":           when(func(f facts) bool { return is(stepEnd)(f) && f.dead && !f.settled }, waitForSettled),
		"ends with replies owed":            func(f facts) step { f.settled = true; return next(f) },
		"ignores the suspicion":             func(f facts) step { f.suspect = false; return next(f) },
		"a drain drops unread input":        func(f facts) step { f.unread = false; return next(f) },
		"a drain drops unserved input":      when(func(f facts) bool { return is(stepServe)(f) && f.drains }, stepFinish),
		"continues to read after a reason":  when(func(f facts) bool { return is(stepClose)(f) && !f.stopped }, waitForBytes),
		"ends without a refusal":            when(is(stepRefuse), stepShut),
		"forgets a promised hand-over":      when(is(stepHandOver), stepEnd),
		"closes twice":                      when(func(f facts) bool { return f.phase == finishing && next(f) == stepEnd && f.stopped }, stepFinish),
		"a drain never begins":              when(is(stepDrain), waitForRoom),
		"a drain waits for no message":      func(f facts) step { f.expects = false; return next(f) },
		"says nothing to half a message":    func(f facts) step { f.partial = false; return next(f) },
		"closes after a part of a reply":    func(f facts) step { f.unfinished = false; return next(f) },
		"resets before all was received":    func(f facts) step { f.received = true; return next(f) },
		"forgets the final message":         func(f facts) step { f.words = false; return next(f) },
	}
	for _, name := range slices.Sorted(maps.Keys(mutants)) {
		if _, found := explore(mutants[name]); found == "" {
			t.Errorf("%s: no invariant detects it", name)
		} else {
			t.Logf("%s: %.60s", name, found)
		}
	}
}

// A random walk reaches states that an ordered search might not: a million steps, with a
// seed to repeat them.
func TestLifecycleRandomWalk(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	m := modelled{facts: facts{settled: true}}
	for range 1_000_000 {
		if m.ended {
			m = modelled{facts: facts{settled: true}}
		}
		m = walk(t, m, rng.IntN, seed)
	}
}

// walk takes one random step.
func walk(t *testing.T, m modelled, pick func(int) int, seed uint64) modelled {
	st := next(m.facts)
	if why := m.broken(st); why != "" {
		t.Fatalf("seed %d: %s: %v", seed, why, m)
	}
	following := append(m.carriedOut(st), m.resolved(st)...)
	if pick(4) == 0 || len(following) == 0 {
		following = m.happens()
	}
	n := following[pick(len(following))]
	if n.violated != "" {
		t.Fatalf("seed %d: %s: %v", seed, n.violated, m)
	}
	return n
}

// FuzzLifecycle lets the fuzzer choose what happens.
func FuzzLifecycle(f *testing.F) {
	f.Add([]byte("\x00\x01\x02\x03"))
	f.Fuzz(func(t *testing.T, script []byte) {
		at := 0
		pick := func(n int) int {
			if at++; at > len(script) {
				return 0
			}
			return int(script[at-1]) % n
		}
		for m := (modelled{facts: facts{settled: true}}); at < len(script) && !m.ended; {
			m = walk(t, m, pick, 0)
		}
	})
}

// TestNext tests the decision table line by line.
func TestNext(t *testing.T) {
	open := func(change func(*facts)) facts {
		f := facts{opened: true, settled: true}
		change(&f)
		return f
	}
	for _, x := range []struct {
		name string
		f    facts
		want step
	}{
		{"new", facts{settled: true}, stepOpen},
		{"new, and the server drains", facts{settled: true, draining: true}, stepOpen},
		{"dead before it was opened", facts{dead: true}, stepEnd},
		{"dead while user code has the socket", open(func(f *facts) { f.phase, f.dead = takenOver, true }), waitForUser},
		{"idle", open(func(*facts) {}), waitForBytes},
		{"reply owed, idle", open(func(f *facts) { f.settled = false }), waitForBytes},
		{"input", open(func(f *facts) { f.ready = true }), stepServe},
		{"input without room", open(func(f *facts) { f.ready, f.paused = true, true }), waitForRoom},
		{"suspected", open(func(f *facts) { f.suspect, f.paused = true, true }), stepReconsider},
		{"shutdown", open(func(f *facts) { f.draining = true }), stepDrain},
		{"shutdown, but output is blocked", open(func(f *facts) { f.draining, f.paused = true, true }), waitForRoom},
		{"closed for ShuttingDown", open(func(f *facts) { f.why = ShuttingDown }), stepDrain},
		{"drains, input", open(func(f *facts) { f.why, f.drains, f.ready = ShuttingDown, true, true }), stepServe},
		{"drains, unread", open(func(f *facts) { f.why, f.drains, f.unread = ShuttingDown, true, true }), stepRead},
		{"drains, nothing left", open(func(f *facts) { f.why, f.drains = ShuttingDown, true }), stepFinish},
		{"drains, half a message", open(func(f *facts) { f.why, f.drains, f.partial = ShuttingDown, true, true }), stepFinish},
		{"drains, half a message that it waits for", open(func(f *facts) { f.why, f.drains, f.partial, f.expects = ShuttingDown, true, true, true }), waitForBytes},
		{"drains, more of that message", open(func(f *facts) { f.why, f.drains, f.expects, f.unread = ShuttingDown, true, true, true }), stepRead},
		{"finished, half a message", open(func(f *facts) { f.phase, f.why, f.partial = finishing, PeerClosed, true }), stepRefuse},
		{"finished, half a message that the protocol has refused", open(func(f *facts) { f.phase, f.why, f.partial, f.stopped = finishing, PeerClosed, true, true }), stepEnd},
		{"unfinished reply", open(func(f *facts) { f.phase, f.why, f.said, f.unfinished = closing, Panicked, true, true }), waitForReceipt},
		{"unfinished reply, received", open(func(f *facts) { f.phase, f.why, f.said, f.unfinished, f.received = closing, Panicked, true, true, true }), stepReset},
		{"peer closed", open(func(f *facts) { f.why = PeerClosed }), stepFinish},
		{"protocol error", open(func(f *facts) { f.why, f.stopped, f.said = Malformed, true, true }), stepClose},
		{"protocol error in a drain", open(func(f *facts) { f.why, f.stopped, f.said, f.ready = ShuttingDown, true, true, true }), stepFinish},
		{"promised", open(func(f *facts) { f.why, f.promised, f.ready = ClosedHere, true, true }), stepFinish},
		{"promised, owed", open(func(f *facts) { f.phase, f.why, f.promised, f.settled = finishing, ClosedHere, true, false }), waitForSettled},
		{"promised, settled", open(func(f *facts) { f.phase, f.why, f.promised = finishing, ClosedHere, true }), stepHandOver},
		{"promised in a drain", open(func(f *facts) { f.phase, f.why, f.promised = finishing, ShuttingDown, true }), stepHandOver},
		{"finished", open(func(f *facts) { f.phase, f.why = finishing, PeerClosed }), stepEnd},
		{"finished, closed from here meanwhile", open(func(f *facts) { f.phase, f.why = finishing, ClosedHere }), stepEnd},
		{"drained", open(func(f *facts) { f.phase, f.why = finishing, ShuttingDown }), stepClose},
		{"closing, owed", open(func(f *facts) { f.phase, f.why, f.settled = closing, IdleTimeout, false }), waitForSettled},
		{"closing", open(func(f *facts) { f.phase, f.why = closing, IdleTimeout }), stepRefuse},
		{"closing for PeerReset, as asked", open(func(f *facts) { f.phase, f.why = closing, PeerReset }), stepRefuse},
		{"closing, refused", open(func(f *facts) { f.phase, f.why, f.said = closing, IdleTimeout, true }), stepShut},
		{"displaced", open(func(f *facts) { f.phase, f.why = closing, Displaced }), stepRefuse},
		{"displaced, refused", open(func(f *facts) { f.phase, f.why, f.said = closing, Displaced, true }), stepEnd},
		{"closing without a refusal", open(func(f *facts) { f.phase, f.why = closing, ClosedHere }), stepShut},
		{"lingering", open(func(f *facts) { f.phase, f.why = lingering, IdleTimeout }), waitForPeer},
	} {
		if got := next(x.f); got != x.want {
			t.Errorf("%s: step %d, want %d", x.name, got, x.want)
		}
	}
	for r, want := range map[result]afterVisit{
		{hungry: true}:                    visitLater,
		{}:                                visitAgain,
		{why: Malformed, takeOver: true}:  stopVisits,
		{takeOver: true, ending: true}:    promise,
		{ending: true, hungry: true}:      leave,
		{why: ShuttingDown, hungry: true}: stopVisits,
	} {
		if got := after(r); got != want {
			t.Errorf("%+v: %d, want %d", r, got, want)
		}
	}
}

func BenchmarkNext(b *testing.B) {
	f := facts{opened: true, settled: true}
	for b.Loop() {
		next(f)
	}
}
