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
	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/internal/tlsfront"
)

// variant is an engine, in a mode or with a kind of listener: a name for the subtests,
// and what they run on.
type variant struct {
	name   string
	engine engine.Engine
}

// Variants of Events. The engine of onFaults is the plain one, with random faults in its
// system calls.
const (
	onLoops  = "events"
	inline   = "events-inline"
	offload  = "events-offload"
	onFaults = "events-faults"
	onTLS    = "events-tls"
)

// variantsOf returns the engines for a test: all of them, and the relevant variants of
// Events. How its handlers are called differs in a run of all tests and under the race detector
// only: engine's own tests look at that.
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
	hands := testrun.All() || testrun.Race
	if hands && !time && !memory && !handlersBlockOthers(top) {
		all = append(all, variant{inline, engine.Events(engine.Inline)})
	}
	if hands && !time {
		all = append(all, variant{offload, engine.Events(engine.Offload)})
	}
	if !time && !memory {
		all = append(all, variant{onFaults, engine.Events(engine.Auto)})
	}
	if !time && !memory && !seesTheFront(top) {
		all = append(all, variant{onTLS, engine.Events(engine.Auto)})
	}
	return all
}

// handlersBlockOthers reports whether a test cannot pass while a handler blocks its loop,
// as it may with Inline: the test releases the handler only after others were served, a
// push was delivered or a reset was detected.
func handlersBlockOthers(test string) bool {
	switch test {
	case "TestBlockedHandlerDoesNotDelayOtherConnections", // others are served meanwhile
		"TestResetWhileAHandlerIsBlocked",
		"TestPeerThatWaitsForAnAnswerIsNotIdle",
		"TestShutdownIsForcedWhenItsContextEnds",                // others are refused meanwhile
		"TestPushReachesAConnectionWhoseHandlerIsBlocked",       // a push arrives meanwhile
		"TestReplyOfABrokenConnectionReachesNobodyElse",         // a push detects the reset meanwhile
		"TestTakeOverOfABrokenConnectionIsForgotten",            // likewise
		"TestTakenOverSocketHasNoDeadlines",                     // 40 handlers of 250 ms in sequence
		"TestOthersGoOnWhileHooksBlock",                         // the hooks count as handlers
		"TestPushAndCloseOfAConnectionWhoseHandlerTakesItsTime": // its push arrives before its end
		return true
	}
	return false
}

// seesTheFront reports whether a test can tell the front of the variant events-tls from its
// clients: by their addresses, by a PROXY header, which comes before TLS, by a reset while the front
// waits for the server, because over TLS a refused connection is not told why,
// because what was sent before a shutdown may still be in the front, or because its short limits bound the
// handshakes of 40 connections.
func seesTheFront(test string) bool {
	switch test {
	case "TestBadHeaderFromATrustedProxyIsRefused",
		"TestClientAllocations",
		"TestClientRefused",
		"TestConnectionsOverTheCapAreRefusedAndToldWhy",
		"TestConnsPerAddressCountsTheSocketsAddress",
		"TestConnsPerAddressCountsTheToldAddress",
		"TestContextAndValueBelongToTheConnection",
		"TestCrowdOfRefusedConnectionsIsBounded",
		"TestEveryListenerIsServedAlike",
		"TestForgedProxyHeaderIsJustBadBytes",
		"TestIdleClientsGiveWay",
		"TestIdleConnectionsAreToldThatTheServerShutsDown",
		"TestOneServerServesEveryListenerAtOnce",
		"TestPeerIsAskedWhileItLeaves",
		"TestPeerIsKnownWhereverThereIsAConn",
		"TestRemoteAddrIsThePeers",
		"TestRequestsThatTheKernelHoldsAtShutdownAreAnswered",
		"TestResetAtEveryByteEndsOneConnection",
		"TestResetWhileReadingIsPaused",
		"TestServerServesTwoListeners",
		"TestShutdownWithInFlightReached",
		"TestSlowHandlersDoNotCutADrainShort",
		"TestStaleConnAnswersErrClosedForGood",
		"TestTakenOverSocketHasNoDeadlines",
		"TestToldAddressIsTheAddressEverywhere",
		"TestTrustedProxyTellsTheAddressHoweverItsHeaderIsSplit":
		return true
	}
	return false
}

// limitsStrike reports whether a test only waits for a timeout to expire, or not to.
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

// countsMemory reports whether a test counts bytes or allocations, which faults would
// distort.
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

// runPlain is run without variants: for accepting, for idle connections, and for
// connections other than sockets, which Events serves in only one way.
func runPlain(t *testing.T, test func(t *testing.T, e engine.Engine)) {
	t.Helper()
	together.runPlain(t, test)
}

func (m manner) runPlain(t *testing.T, test func(t *testing.T, e engine.Engine)) {
	t.Helper()
	var all []variant
	for _, e := range engine.All() {
		all = append(all, variant{e.Name(), e})
	}
	m.runOn(t, all, test)
}

// faltering is a listener for whose connections Events makes system calls through fault.
// Events detects it by its method; its Accept is the plain one.
type faltering struct {
	net.Listener
	fault sys.Fault
}

func (l *faltering) NewPoll() (*sys.Poll, error) { return sys.NewPoll(l.fault) }

// grounds returns the listener for a test: ln, with faults where the variant needs them.
func grounds(t *testing.T, ln net.Listener) net.Listener {
	switch on := strings.Split(t.Name(), "/"); {
	case slices.Contains(on, onTLS):
		return tlsfront.Listen(t, ln, tlsConfig(t))
	case !slices.Contains(on, onFaults):
		return ln
	}
	name := fnv.New64a()
	io.WriteString(name, t.Name())
	return &faltering{ln, falter(seed(t) ^ name.Sum64())}
}

// falter is a Fault without visible effects. It interrupts calls, returns EAGAIN although
// there is data, and does a part of what was requested: a byte, most of it, one event.
// The seed determines what happens to the n-th call; the scheduler determines which call
// is the n-th.
func falter(seed uint64) sys.Fault {
	var calls atomic.Uint64
	return func(c sys.Call, n int) (int, error) {
		chance := mixed(seed + calls.Add(1))
		what, size := chance%32, chance>>8
		switch {
		case c == sys.CallRegister: // cannot be interrupted or partial
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
