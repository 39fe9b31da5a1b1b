package engine

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/internal/testrun"
)

// The flags of TestMetamorphic.
var (
	metaSeed    = flag.Uint64("seed", 0, "TestMetamorphic: first seed; 0: random")
	metaSteps   = flag.Int("steps", 0, "TestMetamorphic: moves to draw; each is made on every engine")
	metaOnly    = flag.Int64("history", -1, "TestMetamorphic: number of the only history to run, ten times on each engine")
	metaWithout = flag.String("without", "", "TestMetamorphic: further moves, acts and rules to leave out, separated by commas")
	metaBias    = flag.String("bias", "", "TestMetamorphic: kind=factor, separated by commas")
)

// leftOut are kinds of moves and acts that are not drawn, and rules that are not checked,
// until the faults that they show are repaired.
var leftOut = []string{}

// lifetime is the timeout of everything that a playing waits for.
const lifetime = 20 * time.Second

// movesPerLife is the length of a history.
const movesPerLife = 160

// TestMetamorphic runs random histories, the same on every engine, and compares what
// their clients see with a model. A history that fails is shrunk, and printed as a test.
func TestMetamorphic(t *testing.T) {
	t.Parallel()
	seed, steps := *metaSeed, *metaSteps
	if seed == 0 {
		seed = rand.Uint64N(1e9)
	}
	if steps == 0 {
		steps = testrun.Sized(2_000, 20_000)
	}
	without, bias := choices(t)
	draw := func(i int64) history {
		return (&maker{Rand: rand.New(rand.NewPCG(seed, uint64(i))), without: without, bias: bias}).history(movesPerLife)
	}
	if h := draw(*metaOnly); *metaOnly >= 0 {
		t.Log(h)
		for _, e := range allEngines() {
			replay(t, e, h)
		}
		return
	}
	begun := time.Now()
	var lives atomic.Int64
	var failed atomic.Bool
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for {
				i := lives.Add(1) - 1
				if i*movesPerLife >= int64(steps) || failed.Load() {
					return
				}
				h := draw(i)
				for _, e := range allEngines() {
					for _, h := range ways(h, e) {
						if failed.Load() {
							return
						}
						if v := enact(h, e, lifetime, without); v != nil && failed.CompareAndSwap(false, true) {
							t.Errorf("seed %d, history %d, %s, TLS %v: %s: %s\n%s", seed, i, e.Name(), h.secure, v.rule, v.text, shrink(h, e, v, without))
						}
					}
				}
			}
		})
	}
	workers.Wait()
	took := time.Since(begun)
	t.Logf("seed %d: %d moves on %d engines in %v", seed, steps, len(allEngines()), took.Round(time.Millisecond))
}

// allEngines returns every engine in every mode.
func allEngines() []Engine { return append(All(), Events(Inline), Events(Offload)) }

// choices returns the kinds and rules to leave out, and the factors of frequencies.
func choices(t *testing.T) (without map[string]bool, bias map[string]int) {
	without, bias = map[string]bool{}, map[string]int{}
	for _, name := range append(leftOut, strings.Split(*metaWithout, ",")...) {
		without[name] = true
	}
	for _, pair := range strings.Split(*metaBias, ",") {
		if name, factor, ok := strings.Cut(pair, "="); ok {
			n, err := strconv.Atoi(factor)
			if err != nil {
				t.Fatal(err)
			}
			bias[name] = n
		}
	}
	return without, bias
}

// replay runs a history, several times because chance may play a role.
func replay(t *testing.T, e Engine, h history) {
	t.Helper()
	times := 10
	if *metaOnly < 0 {
		times = testrun.Sized(4, times)
	}
	for _, h := range ways(h, e) {
		for range times {
			if v := enact(h, e, lifetime, nil); v != nil {
				t.Fatalf("%s, after %d moves on %s, TLS %v: %s", v.rule, v.moves, e.Name(), h.secure, v.text)
			}
		}
	}
}

// Histories that have failed once.
func TestMetamorphicFound(t *testing.T) {
	t.Parallel()
	limits := Limits{FrameTime: 6 * time.Second, FrameRate: 1 << 30, IdleTime: 20 * time.Second, StallTime: 6 * time.Second, LingerTime: 8 * time.Second}
	ended := history{limits: limits, moves: []move{ // Ended ends its goroutine: buffers stayed in use
		{do: "connect", on: 2, size: 1},
		{do: "send", on: 2, asks: []request{{acts: []act{{do: "become", n: 3}}}}},
	}}
	silent := history{limits: limits, shared: true, moves: []move{ // a refusal was kept for a place that was free again
		{do: "connect", size: 1},
		{do: "connect", on: 1},
		{do: "connect", on: 2, size: 1},
		{do: "send", on: 2, asks: []request{{acts: []act{}}}},
		{do: "connect", on: 3},
		{do: "send", on: 3, asks: []request{{acts: []act{{do: "refuse"}}}}},
		{do: "send", on: 1, asks: []request{{acts: []act{}}}},
		{do: "send", asks: []request{{acts: []act{}}}},
	}}
	silent.limits.Conns = 2
	empty := history{limits: limits, moves: []move{ // an empty late reply counted as owed until something was written
		{do: "connect"},
		{do: "send", asks: []request{{acts: []act{{do: "later"}}}}},
		{do: "settle"},
	}}
	left := history{limits: limits, moves: []move{ // its server waited for a receipt that could not come any more
		{do: "connect tcp", size: 1},
		{do: "send", asks: []request{{acts: []act{{do: "part", n: 1}, {do: "flush"}, {do: "exit"}}}}},
		{do: "leave"},
	}}
	become := request{acts: []act{{do: "become"}}}
	slow := history{limits: limits, moves: []move{ // a handler that takes longer than IdleTime, in the last visit of a round
		{do: "connect"},
		{do: "send", asks: []request{become, {acts: []act{{do: "gate"}, {do: "become"}}}, become, become}},
		{do: "pass", n: 25},
	}}
	large := history{limits: limits, moves: []move{ // the same, in a visit whose reply does not fit the socket
		{do: "connect", on: 2, size: 1},
		{do: "send", on: 2, asks: []request{{size: 67584, acts: []act{{do: "gate"}, {do: "become"}}}}},
		{do: "pass", on: 1, n: 25},
	}}
	gone := history{limits: limits, moves: []move{ // in a drain, a handler that waited for more of a client that had left went on for ever
		{do: "connect"},
		{do: "send", asks: []request{{body: 30, tail: 83, acts: []act{{do: "more"}}}}, back: 40},
		{do: "leave"},
		{do: "close", n: 2},
	}}
	lost := history{limits: limits, shared: true, moves: []move{ // in a drain, what followed a message that was dropped for TotalInput was served
		{do: "connect", on: 1, size: 4096},
		{do: "send", on: 1, asks: []request{{acts: []act{{do: "later"}}}}},
		{do: "connect", on: 3},
		{do: "calm"},
		{do: "send", on: 3, asks: []request{{body: 40960, acts: []act{}}}},
		{do: "send", on: 3, asks: []request{{acts: []act{}}}},
		{do: "shutdown"},
	}}
	lost.limits.TotalInFlight, lost.limits.TotalInput = 1, 36160
	given := history{limits: limits, moves: []move{ // Shutdown's context had ended, and for a moment the server went on: it gave a socket away
		{do: "connect"},
		{do: "send", asks: []request{{acts: []act{{do: "lend", n: 1}}}}},
		{do: "send", asks: []request{{body: 94, acts: []act{{do: "give"}}}}, back: 90},
		{do: "shutdown"},
		{do: "force"},
		{do: "send", asks: []request{{acts: []act{}}}},
		{do: "release"},
	}}
	broken := history{limits: limits, moves: []move{ // over TLS, what was sealed for a client that had left counted as output for ever
		{do: "connect", size: 1},
		{do: "send", asks: []request{{acts: []act{{do: "gate"}}}}},
		{do: "pass", n: 1},
		{do: "reset"},
		{do: "pass", n: 2},
	}}
	rest := history{limits: limits, moves: []move{ // over TLS, a drained handler that waited for more than had arrived read nothing, for ever
		{do: "connect"},
		{do: "send", asks: []request{{acts: []act{{do: "later"}}}}},
		{do: "send", asks: []request{{body: 30, tail: 83, acts: []act{{do: "more"}}}}, back: 40},
		{do: "shutdown"},
		{do: "calm"},
		{do: "settle"},
		{do: "calm"},
		{do: "rest"},
	}}
	rest.limits.InFlight = 1
	for _, e := range allEngines() {
		replay(t, e, rest)
		replay(t, e, broken)
		replay(t, e, given)
		replay(t, e, lost)
		replay(t, e, gone)
		replay(t, e, slow)
		replay(t, e, large)
		replay(t, e, empty)
		replay(t, e, left)
		replay(t, e, ended)
		replay(t, e, silent)
	}
}

// program returns a history as a test.
func program(h history, e Engine, rule string) string {
	name := map[style]string{buffered: "Buffered(0)", events: fmt.Sprintf("Events(%s)", [...]string{"Auto", "Inline", "Offload"}[e.hand])}[e.style]
	return fmt.Sprintf("func TestFound(t *testing.T) { // %s\n\treplay(t, %s, %v)\n}", rule, name, h)
}
