package httpdiff

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hone-go/hone/internal/testrun"
)

var (
	streams = flag.Int("streams", 0, "compare this many streams, and a hundredth as many with pauses, instead of some seconds")
	again   = flag.String("stream", "", "play the stream SEED/NUMBER again and show its results")
)

// TestMain counts goroutines after all tests.
func TestMain(m *testing.M) {
	testrun.SideBySide(8)
	// net/http rests for half a second before it closes a connection whose request it refused.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// TestStreams compares streams that do not depend on time. It runs before the parallel tests, whose
// timeouts a busy machine could disturb.
func TestStreams(t *testing.T) {
	compareStreams(t, draw, 48, *streams, time.Duration(testrun.Sized(1000, 35_000))*time.Millisecond)
}

// TestTimedStreams compares streams that pause.
func TestTimedStreams(t *testing.T) {
	t.Parallel()                                                         // it waits
	compareStreams(t, drawTimed, 64, *streams/100, 300*time.Millisecond) // for longer in make suites
}

// compareStreams compares n streams, or if n is 0 as many as it can begin in a time.
func compareStreams(t *testing.T, draw func(seed, number uint64) *stream, workers, n int, within time.Duration) {
	c := newContest(t)
	if *again != "" {
		var seed, number uint64
		if _, err := fmt.Sscanf(*again, "%d/%d", &seed, &number); err != nil {
			t.Fatalf("-stream %s: use SEED/NUMBER, as a failure prints it", *again)
		}
		s := draw(seed, number)
		t.Log(s.literal())
		for _, e := range c.engines {
			v, d := c.compare(e, s)
			t.Logf("%s: %s\n%v", e.Name(), v, d)
		}
		return
	}
	seed := uint64(rand.Uint32())
	t.Logf("seed %d", seed)
	var next, failures atomic.Int64
	var all sync.WaitGroup
	began, counts := time.Now(), make(map[verdict]int)
	for range workers {
		all.Go(func() {
			for failures.Load() < 5 { // they are enough to look at
				at := next.Add(1) - 1
				if n > 0 && at >= int64(n) || n == 0 && time.Since(began) > within {
					return
				}
				v, d := c.compare(c.engines[at%int64(len(c.engines))], draw(seed, uint64(at)))
				c.mu.Lock()
				counts[v]++
				c.mu.Unlock()
				switch v {
				case differ:
					failures.Add(1)
					t.Logf("stream %d/%d differs on %s", seed, at, d.engine.Name())
					t.Errorf("stream %d/%d, shrunk:\n%v", seed, at, c.shrink(d))
				case once:
					t.Logf("stream %d/%d is %s:\n%v", seed, at, v, d)
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d streams in %v: %v", next.Load()-int64(workers), time.Since(began).Round(time.Second), counts)
}

// TestFindsAndShrinks checks that a defect of http1 would be found, and shrunk to what shows it.
func TestFindsAndShrinks(t *testing.T) {
	t.Parallel() // it waits
	c := newContest(t)
	c.twist = func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ContentLength > 1 {
				w.Header().Set("X-Defect", "1")
			}
			h.ServeHTTP(w, r)
		})
	}
	s := &stream{Requests: []request{get("/echo"), post("/count", 1000, fill(1000)), closing}, Waits: true, Cuts: []int{5, 50, 500}}
	s.Requests[1].add("X-A: 1\r\n")
	v, d := c.compare(c.engines[0], s)
	if v != differ {
		t.Fatalf("the defect is %s", v)
	}
	if d = c.shrink(d); len(d.Requests) > 1 || len(d.Requests[0].Fields) > 2 || len(d.Requests[0].Body) > 2 || len(d.Cuts) > 0 || d.Waits {
		t.Errorf("it shrinks only to %v", d)
	}
}

// TestWitnesses checks that every entry of the tables is needed and right: http1 differs in its
// witness on some engine and in no other way, and the documentation still says why.
func TestWitnesses(t *testing.T) {
	t.Parallel() // it waits
	c := newContest(t)
	pages := ""
	for _, name := range []string{"docs/http1.md", "docs/limits.md", "internal/servetest/results.md"} {
		text, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		pages += strings.Join(strings.Fields(string(text)), " ")
	}
	for i, x := range slices.Concat(documented, untilRepaired) {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			if i < len(documented) && !strings.Contains(pages, x.where) {
				t.Errorf("none of the pages says %q", x.where)
			}
			began, shown := time.Now(), false
			for i := 0; i < 200 && !shown; i++ { // chance may hide it
				shown = c.everywhere(t, &x.witness)[verdict(x.name)]
			}
			if !shown && !c.busySince(began) {
				t.Error("http1 no longer differs; delete the entry, and the sentence on a page or the defect; add the witness to known")
			}
		})
	}
	for i := range known {
		t.Run("known", func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			for v := range c.everywhere(t, &known[i]) {
				if v != equal && v != chance && v != resetByNetHTTP && !c.busySince(began) {
					t.Errorf("%s: %s", v, known[i].literal())
				}
			}
		})
	}
}

// everywhere compares s on every engine and returns the verdicts.
func (c *contest) everywhere(t *testing.T, s *stream) map[verdict]bool {
	verdicts := make(map[verdict]bool)
	var all sync.WaitGroup
	for _, e := range c.engines {
		all.Go(func() {
			v, d := c.compare(e, s)
			if v == differ {
				t.Errorf("differs without an explanation:\n%v", d)
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			verdicts[v] = true
		})
	}
	all.Wait()
	return verdicts
}
