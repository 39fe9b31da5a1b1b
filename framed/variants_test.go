package framed_test

import (
	"hash/fnv"
	"io"
	"math/bits"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/internal/sys"
)

// variant is an engine, or one in a particular mode or on particular ground: a
// name for the subtests, and what they are run on.
type variant struct {
	name   string
	engine engine.Engine
}

// What Events is run as, beside what it is by itself. The engine of onFaults is
// the plain one: its connections' system calls falter.
const (
	onLoops  = "events"
	inline   = "events-inline"
	offload  = "events-offload"
	onFaults = "events-faults"
)

// variantsOf are the engines that a test is run on: all of them, and those
// variants of Events that can make a difference to it.
func variantsOf(test string) (all []variant) {
	for _, e := range engine.All() {
		all = append(all, variant{e.Name(), e})
		if e.Name() == onLoops {
			all = append(all, eventsOf(test)...)
		}
	}
	return all
}

func eventsOf(test string) (all []variant) {
	top, _, _ := strings.Cut(test, "/")
	time, memory := limitsStrike(top), countsMemory(top)
	if !time && !memory && !handlersBlockOthers(top) {
		all = append(all, variant{inline, engine.Events(engine.Inline)})
	}
	if !time {
		all = append(all, variant{offload, engine.Events(engine.Offload)})
	}
	if !time && !memory {
		all = append(all, variant{onFaults, engine.Events(engine.Auto)})
	}
	return all
}

// handlersBlockOthers reports whether a test wants something of the server that
// it cannot have while a handler blocks its loop, as Inline lets handlers do: the
// test releases the handler only when it has seen others served, a push
// delivered or a reset noticed.
func handlersBlockOthers(test string) bool {
	switch test {
	case "TestBlockedHandlerDoesNotDelayOtherConnections", // others are served meanwhile
		"TestResetWhileAHandlerIsBlocked",
		"TestPeerThatWaitsForAnAnswerIsNotIdle",
		"TestShutdownIsForcedWhenItsContextEnds",                // others are refused meanwhile
		"TestPushReachesAConnectionWhoseHandlerIsBlocked",       // a push arrives meanwhile
		"TestReplyOfABrokenConnectionReachesNobodyElse",         // a push finds the reset meanwhile
		"TestTakeOverOfABrokenConnectionIsForgotten",            // likewise
		"TestTakenOverSocketHasNoDeadlines",                     // 40 handlers of 250 ms, one after the other
		"TestOthersGoOnWhileHooksBlock",                         // the hooks are handlers too
		"TestPushAndCloseOfAConnectionWhoseHandlerTakesItsTime": // its push arrives before its end
		return true
	}
	return false
}

// limitsStrike reports whether a test waits for a limit of time to strike, or not
// to, and looks at nothing else.
func limitsStrike(test string) bool {
	switch test {
	case "TestFrameClockStandsStillWhileTheServerDoesNotRead",
		"TestHalfClosedPeerIsClosedAfterIdleTimeOnSockets",
		"TestIdleConnectionIsClosedAndSaidWhy",
		"TestLargeFrameHasTheTimeOfItsSize",
		"TestRefusedPeerThatStaysIsClosedAfterLingerTime",
		"TestSlowButSteadyReaderGetsEverything",
		"TestSteadyReaderBehindLargeKernelBuffersIsNoStall",
		"TestTrickledFrameIsTooSlow",
		"TestTrickledProxyHeaderIsTooSlow":
		return true
	}
	return false
}

// countsMemory reports whether a test counts bytes or allocations, which faltering
// calls would only blur.
func countsMemory(test string) bool {
	switch test {
	case "TestAllOutputTogetherIsBoundedAndTheSlowestGo",
		"TestBlockedAndUnreadConnectionsCostAMegabyteAtMost",
		"TestNoAllocationsPerRequest",
		"TestPeersThatNeverReadAreClosedAndCostLittle",
		"TestPeersThatReadDoNotPayForTheBudget":
		return true
	}
	return false
}

// runPlain is run without variants: for accepting, for what an idle connection is,
// and for connections that are not sockets, which Events serves in one way only.
func runPlain(t *testing.T, test func(t *testing.T, e engine.Engine)) {
	t.Helper()
	var all []variant
	for _, e := range engine.All() {
		all = append(all, variant{e.Name(), e})
	}
	runOn(t, all, test)
}

// faltering is a listener whose connections Events serves by system calls that
// fault has a say in. Events knows it by its method; its Accept is the plain one.
type faltering struct {
	net.Listener
	fault sys.Fault
}

func (l *faltering) SystemCalls() sys.Fault { return l.fault }

// grounds is the listener that a test serves on: ln, and with calls that falter
// where the variant wants them.
func grounds(t *testing.T, ln net.Listener) net.Listener {
	if !slices.Contains(strings.Split(t.Name(), "/"), onFaults) {
		return ln
	}
	name := fnv.New64a()
	io.WriteString(name, t.Name())
	return &faltering{ln, falter(seed(t) ^ name.Sum64())}
}

// falter is a Fault that nobody may notice. Calls are interrupted, find nothing
// though there is something, and do a part of what was asked: a byte, most of it,
// one event. What happens to the n-th call is in the seed; which one is the n-th
// is up to the scheduler.
func falter(seed uint64) sys.Fault {
	var calls atomic.Uint64
	return func(c sys.Call, n int) (int, error) {
		chance := mixed(seed + calls.Add(1))
		what, size := chance%32, chance>>8
		switch {
		case c == sys.CallRegister: // cannot be interrupted, and finds or does all
		case what < 2:
			return 0, syscall.EINTR
		case what < 4:
			return 0, nil
		case what < 12 && n > 1:
			return 1 + int(size>>8%(1<<(size%uint64(bits.Len(uint(n-1)))))), nil
		}
		return n, nil
	}
}

// mixed spreads n over all 64 bits.
func mixed(n uint64) uint64 {
	n *= 0x9e3779b97f4a7c15
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}
