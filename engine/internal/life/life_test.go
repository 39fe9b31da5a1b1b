package life

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
	Facts
	input    int8 // messages that have arrived and are unread; see facts.ready for those that were read
	told     int8 // how often the peer was refused
	gave     bool // user code has had the socket
	known    bool // OnOpen was called
	closed   int8 // how often OnClose was called
	ended    bool
	violated string // the violated invariant
}

func (m modelled) String() string { return fmt.Sprintf("%+v, next %d", m.Facts, Next(m.Facts)) }

// with returns m with a change.
func (m modelled) with(change func(*modelled)) modelled {
	change(&m)
	return m
}

// fail is what package engine does with a reason: the first one stays, unless it is Left.
func (m *modelled) fail(why Kind) {
	if m.Why == Lives || m.Why == Left {
		m.Why = why
	}
}

// decider is next, or a mutant of it.
type decider func(Facts) Step

// broken returns the invariant that a step would violate, or "".
func (m modelled) broken(st Step) string {
	serves := st == StepServe || st == StepRead
	leaves := st == StepShut || st == StepHandOver || st == StepEnd && !m.Dead
	switch {
	case m.Dead && m.Phase != TakenOver && st != StepEnd:
		return "a dead connection does not end at once"
	case m.Phase == TakenOver && st != WaitForUser:
		return "touches a socket of user code"
	case serves && (!m.Opened || m.Phase != Serving):
		return "serves in the wrong phase"
	case serves && (m.Stopped || m.Promised || m.Why.Ends()):
		return "serves after an error, a refusal or a promise"
	case serves && m.Words:
		return "serves behind the final message"
	case serves && m.Paused:
		return "serves without room"
	case st == StepRead && !m.Drains:
		return "reads without need"
	case st == WaitForBytes && (m.Why != Lives || m.Draining) && !(m.Drains && m.Expects && m.Why == Draining):
		return "waits for bytes with a reason to end"
	case (st == WaitForBytes || st == WaitForRoom) && m.Suspect:
		return "waits with a pending suspicion"
	case (st == WaitForBytes || st == WaitForRoom) && (m.Stopped || m.Promised):
		return "waits for input that will not be served"
	case st == StepFinish && m.Why == Draining && !m.Stopped && !m.Promised && !m.Words && (m.Ready || m.Unread):
		return "a drain drops received input"
	case st == StepFinish && m.Why == Draining && !m.Stopped && !m.Promised && !m.Words && m.Expects:
		return "a drain drops a message that it waits for"
	case st == StepEnd && !m.Dead && m.Why == Left && m.Partial && !m.Stopped && !m.Said:
		return "says nothing to half a message"
	case st == StepEnd && !m.Dead && m.Phase <= Finishing && m.Words && !m.Said:
		return "drops the final message"
	case m.Unfinished && (st == StepShut || st == StepEnd && !m.Dead):
		return "gives an unfinished reply an end"
	case st == StepReset && !(m.Unfinished && m.Received && m.Settled):
		return "a reset destroys replies"
	case st == StepRefuse && (m.told > 0 || m.Said):
		return "refuses twice"
	case st == StepRefuse && (m.Promised || m.gave):
		return "refuses after a promise"
	case (st == StepRefuse || leaves) && !m.Settled:
		return "ends before all is settled"
	case st == StepShut && m.told == 0 && !m.Said && (m.Words || m.Why != Told):
		return "ends without a refusal"
	case m.Promised && (st == StepShut || st == StepEnd && !m.Dead):
		return "ends with a promised hand-over"
	case st == StepHandOver && !m.Promised:
		return "hands over an unrequested socket"
	case (st == StepFinish || st == StepClose) && m.Why == Lives && !m.Promised && !m.Stopped:
		return "ends without a reason"
	}
	return ""
}

// carriedOut returns the states that a step can lead to.
func (m modelled) carriedOut(st Step) (all []modelled) {
	into := func(change func(*modelled)) { all = append(all, m.with(change)) }
	enter := func(p Phase) {
		into(func(m *modelled) {
			if p < m.Phase {
				m.violated = "a phase goes back"
			}
			m.Phase = p
		})
	}
	switch st {
	case StepOpen:
		into(func(m *modelled) { m.Opened, m.known = true, true })
		into(func(m *modelled) { m.Opened = true; m.fail(Told); m.Dead = true }) // a failed handshake
		into(func(m *modelled) { m.Opened, m.known = true, true; m.fail(Untold) })
	case StepReconsider:
		into(func(m *modelled) { m.Suspect = false })
		into(func(m *modelled) { m.Suspect, m.Expects = false, false; m.fail(Untold) })
		into(func(m *modelled) { m.Suspect = false; m.fail(Displaced) })
	case StepDrain:
		into(func(m *modelled) { m.Drains = true; m.fail(Draining); m.Unread = m.input > 0 })
	case StepRead:
		into(func(m *modelled) { m.Unread, m.Expects = false, false; m.fail(Left) })
		into(func(m *modelled) { m.fail(Untold); m.Dead = true })
		fallthrough
	case StepServe:
		return append(all, m.visits(st == StepRead)...)
	case StepFinish:
		enter(Finishing)
	case StepClose:
		enter(Closing)
	case StepRefuse:
		into(func(m *modelled) { m.Said = true; m.told++ })
		into(func(m *modelled) { m.Said = true; m.told++; m.Settled = false })
	case StepShut:
		enter(Lingering)
	case StepReset:
		into(func(m *modelled) { m.Dead = true })
	case StepHandOver:
		enter(TakenOver)
	case StepEnd:
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
		m.Unread = m.Drains && m.input > 0
	}
	m.Ready, m.Partial, m.Expects = false, false, false
	for _, settled := range []bool{true, false} {
		out := m.with(func(m *modelled) { m.Settled = m.Settled && settled })
		for _, why := range []Kind{Lives, Told, Draining, Untold} {
			for _, takeOver := range []bool{false, true} {
				for _, closed := range []Kind{Lives, Told, Draining} { // by the handler
					all = append(all, out.with(func(m *modelled) {
						if closed != Lives {
							m.fail(closed)
						}
						if m.Stopped = why != Lives; m.Stopped {
							m.Said = m.Said || why == Told
							m.fail(why)
						} else {
							m.Promised = takeOver
						}
					}))
				}
			}
		}
		all = append(all, out.with(func(m *modelled) { m.Ready, m.Paused = true, !out.Settled })) // no room for the rest
		all = append(all, out.with(func(m *modelled) { m.Partial = true }))                       // half a message
		all = append(all, out.with(func(m *modelled) { m.Partial, m.Expects = true, true }))
		all = append(all, out.with(func(m *modelled) { // a panic after a part of the reply was sent
			m.Stopped, m.Said, m.Unfinished = true, true, true
			m.fail(Told)
		}))
	}
	return all
}

// happens returns the states that others can cause at any moment.
func (m modelled) happens() (all []modelled) {
	into := func(change func(*modelled)) { all = append(all, m.with(change)) }
	into(func(m *modelled) { m.Draining = true })
	into(func(m *modelled) { m.Dead, m.Why = true, Untold })
	into(func(m *modelled) { m.fail(Untold); m.Dead = true })
	for _, why := range []Kind{Draining, Told, Untold} {
		into(func(m *modelled) { m.fail(why) }) // Conn.Close
	}
	if m.Phase <= Finishing && !m.Said && (!m.Why.Ends() || m.Why == Left) {
		into(func(m *modelled) { m.fail(Told); m.Words = true }) // Conn.End
	}
	if m.Phase == Serving {
		into(func(m *modelled) { m.Suspect = true })
		into(func(m *modelled) { m.input = min(m.input+1, 2) })
	}
	if m.Phase <= Closing && m.Opened && !m.Said {
		into(func(m *modelled) { m.Settled = false }) // a push
	}
	return all
}

// resolved returns the states after a wait is over.
func (m modelled) resolved(st Step) (all []modelled) {
	into := func(change func(*modelled)) { all = append(all, m.with(change)) }
	switch st {
	case WaitForUser:
		into(func(m *modelled) { m.fail(Told); m.gave, m.ended = true, true; m.closed++ })
		for _, left := range []bool{false, true} { // or it comes back
			into(func(m *modelled) { m.Phase, m.Promised, m.Ready = Serving, false, left })
		}
	case WaitForPeer:
		into(func(m *modelled) { m.Dead = true })
	case WaitForSettled:
		into(func(m *modelled) { m.Settled = true })
	case WaitForReceipt:
		into(func(m *modelled) { m.Received = true })
		into(func(m *modelled) { m.Dead = true }) // the peer reads nothing
	case WaitForRoom:
		into(func(m *modelled) { m.Paused = false })
	case WaitForBytes:
		into(func(m *modelled) { m.fail(Left); m.Expects = false })
		into(func(m *modelled) { m.fail(Untold); m.Dead = true })
		if m.Drains {
			into(func(m *modelled) { m.Unread = true })
		} else if m.input > 0 {
			all = append(all, m.visits(true)...)
		}
	}
	return all
}

// explore visits every reachable state and returns how many there are, and the first one
// that violates an invariant.
func explore(next decider) (states int, found string) {
	start := modelled{Facts: Facts{Settled: true}}
	proxied := start.with(func(m *modelled) { m.Opened, m.known = true, true })
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
		st := next(m.Facts)
		if why := m.broken(st); why != "" {
			return len(seen), fmt.Sprintf("%s: %v", why, m)
		}
		following := append(m.carriedOut(st), m.happens()...)
		if st <= WaitForBytes {
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
		st := next(m.Facts)
		following := m.carriedOut(st)
		if st <= WaitForBytes {
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
	states, found := explore(Next)
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
	when := func(holds func(Facts) bool, otherwise Step) decider {
		return func(f Facts) Step {
			if holds(f) {
				return otherwise
			}
			return Next(f)
		}
	}
	is := func(st Step) func(Facts) bool { return func(f Facts) bool { return Next(f) == st } }
	mutants := map[string]decider{
		"a close for a drain waits for bytes": when(func(f Facts) bool { return is(StepDrain)(f) && !f.Draining }, WaitForBytes),
		"a drain refuses before the hand-over": func(f Facts) Step {
			if f.Why == Draining {
				f.Promised = false
			}
			return Next(f)
		},
		"a drain refuses again after the protocol": func(f Facts) Step {
			if f.Drains {
				f.Said = f.Said && !f.Stopped
			}
			return Next(f)
		},
		"continues to serve after an error": func(f Facts) Step { f.Stopped = false; return Next(f) },
		"serves without room":               func(f Facts) Step { f.Paused = false; return Next(f) },
		"serves before it is open":          func(f Facts) Step { f.Opened = true; return Next(f) },
		"a dead connection waits":           when(func(f Facts) bool { return is(StepEnd)(f) && f.Dead && !f.Settled }, WaitForSettled),
		"ends with replies owed":            func(f Facts) Step { f.Settled = true; return Next(f) },
		"ignores the suspicion":             func(f Facts) Step { f.Suspect = false; return Next(f) },
		"a drain drops unread input":        func(f Facts) Step { f.Unread = false; return Next(f) },
		"a drain drops unserved input":      when(func(f Facts) bool { return is(StepServe)(f) && f.Drains }, StepFinish),
		"continues to read after a reason":  when(func(f Facts) bool { return is(StepClose)(f) && !f.Stopped }, WaitForBytes),
		"ends without a refusal":            when(is(StepRefuse), StepShut),
		"forgets a promised hand-over":      when(is(StepHandOver), StepEnd),
		"closes twice":                      when(func(f Facts) bool { return f.Phase == Finishing && Next(f) == StepEnd && f.Stopped }, StepFinish),
		"a drain never begins":              when(is(StepDrain), WaitForRoom),
		"a drain waits for no message":      func(f Facts) Step { f.Expects = false; return Next(f) },
		"says nothing to half a message":    func(f Facts) Step { f.Partial = false; return Next(f) },
		"closes after a part of a reply":    func(f Facts) Step { f.Unfinished = false; return Next(f) },
		"resets before all was received":    func(f Facts) Step { f.Received = true; return Next(f) },
		"forgets the final message":         func(f Facts) Step { f.Words = false; return Next(f) },
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
	m := modelled{Facts: Facts{Settled: true}}
	for range 1_000_000 {
		if m.ended {
			m = modelled{Facts: Facts{Settled: true}}
		}
		m = walk(t, m, rng.IntN, seed)
	}
}

// walk takes one random step.
func walk(t *testing.T, m modelled, pick func(int) int, seed uint64) modelled {
	st := Next(m.Facts)
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
		for m := (modelled{Facts: Facts{Settled: true}}); at < len(script) && !m.ended; {
			m = walk(t, m, pick, 0)
		}
	})
}

// TestNext tests the decision table line by line.
func TestNext(t *testing.T) {
	open := func(change func(*Facts)) Facts {
		f := Facts{Opened: true, Settled: true}
		change(&f)
		return f
	}
	for _, x := range []struct {
		name string
		f    Facts
		want Step
	}{
		{"new", Facts{Settled: true}, StepOpen},
		{"new, and the server drains", Facts{Settled: true, Draining: true}, StepOpen},
		{"dead before it was opened", Facts{Dead: true}, StepEnd},
		{"dead while user code has the socket", open(func(f *Facts) { f.Phase, f.Dead = TakenOver, true }), WaitForUser},
		{"idle", open(func(*Facts) {}), WaitForBytes},
		{"reply owed, idle", open(func(f *Facts) { f.Settled = false }), WaitForBytes},
		{"input", open(func(f *Facts) { f.Ready = true }), StepServe},
		{"input without room", open(func(f *Facts) { f.Ready, f.Paused = true, true }), WaitForRoom},
		{"suspected", open(func(f *Facts) { f.Suspect, f.Paused = true, true }), StepReconsider},
		{"shutdown", open(func(f *Facts) { f.Draining = true }), StepDrain},
		{"shutdown, but output is blocked", open(func(f *Facts) { f.Draining, f.Paused = true, true }), WaitForRoom},
		{"closed for ShuttingDown", open(func(f *Facts) { f.Why = Draining }), StepDrain},
		{"drains, input", open(func(f *Facts) { f.Why, f.Drains, f.Ready = Draining, true, true }), StepServe},
		{"drains, unread", open(func(f *Facts) { f.Why, f.Drains, f.Unread = Draining, true, true }), StepRead},
		{"drains, nothing left", open(func(f *Facts) { f.Why, f.Drains = Draining, true }), StepFinish},
		{"drains, half a message", open(func(f *Facts) { f.Why, f.Drains, f.Partial = Draining, true, true }), StepFinish},
		{"drains, half a message that it waits for", open(func(f *Facts) { f.Why, f.Drains, f.Partial, f.Expects = Draining, true, true, true }), WaitForBytes},
		{"drains, more of that message", open(func(f *Facts) { f.Why, f.Drains, f.Expects, f.Unread = Draining, true, true, true }), StepRead},
		{"finished, half a message", open(func(f *Facts) { f.Phase, f.Why, f.Partial = Finishing, Left, true }), StepRefuse},
		{"finished, half a message that the protocol has refused", open(func(f *Facts) { f.Phase, f.Why, f.Partial, f.Stopped = Finishing, Left, true, true }), StepEnd},
		{"unfinished reply", open(func(f *Facts) { f.Phase, f.Why, f.Said, f.Unfinished = Closing, Told, true, true }), WaitForReceipt},
		{"unfinished reply, received", open(func(f *Facts) { f.Phase, f.Why, f.Said, f.Unfinished, f.Received = Closing, Told, true, true, true }), StepReset},
		{"peer closed", open(func(f *Facts) { f.Why = Left }), StepFinish},
		{"protocol error", open(func(f *Facts) { f.Why, f.Stopped, f.Said = Told, true, true }), StepClose},
		{"protocol error in a drain", open(func(f *Facts) { f.Why, f.Stopped, f.Said, f.Ready = Draining, true, true, true }), StepFinish},
		{"promised", open(func(f *Facts) { f.Why, f.Promised, f.Ready = Told, true, true }), StepFinish},
		{"promised, owed", open(func(f *Facts) { f.Phase, f.Why, f.Promised, f.Settled = Finishing, Told, true, false }), WaitForSettled},
		{"promised, settled", open(func(f *Facts) { f.Phase, f.Why, f.Promised = Finishing, Told, true }), StepHandOver},
		{"promised in a drain", open(func(f *Facts) { f.Phase, f.Why, f.Promised = Finishing, Draining, true }), StepHandOver},
		{"finished", open(func(f *Facts) { f.Phase, f.Why = Finishing, Left }), StepEnd},
		{"finished, closed from here meanwhile", open(func(f *Facts) { f.Phase, f.Why = Finishing, Told }), StepEnd},
		{"drained", open(func(f *Facts) { f.Phase, f.Why = Finishing, Draining }), StepClose},
		{"closing, owed", open(func(f *Facts) { f.Phase, f.Why, f.Settled = Closing, Untold, false }), WaitForSettled},
		{"closing", open(func(f *Facts) { f.Phase, f.Why = Closing, Untold }), StepRefuse},
		{"closing, refused", open(func(f *Facts) { f.Phase, f.Why, f.Said = Closing, Untold, true }), StepShut},
		{"displaced", open(func(f *Facts) { f.Phase, f.Why = Closing, Displaced }), StepRefuse},
		{"displaced, refused", open(func(f *Facts) { f.Phase, f.Why, f.Said = Closing, Displaced, true }), StepEnd},
		{"closing without a refusal", open(func(f *Facts) { f.Phase, f.Why = Closing, Told }), StepShut},
		{"lingering", open(func(f *Facts) { f.Phase, f.Why = Lingering, Untold }), WaitForPeer},
	} {
		if got := Next(x.f); got != x.want {
			t.Errorf("%s: step %d, want %d", x.name, got, x.want)
		}
	}
}

func BenchmarkNext(b *testing.B) {
	f := Facts{Opened: true, Settled: true}
	for b.Loop() {
		Next(f)
	}
}
