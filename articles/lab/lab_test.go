package lab

import (
	"context"
	"flag"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/internal/testrun"
)

var whole = flag.Bool("whole", false, "measure, which takes minutes and a machine to itself; without it TestClaims shows that each lab works")

// TestClaims runs each lab and logs a row for each of its claims. That a claim does not hold is no
// failure: figures that cannot be relied on are, with -whole.
func TestClaims(t *testing.T) {
	for _, e := range experiments() {
		t.Run(e.name, func(t *testing.T) {
			if !*whole && e.name != "workers" && !testrun.All() {
				t.Skip("takes a second or two, as each lab does; HONE_TEST_ALL=1 runs it")
			}
			b := newBench(t)
			b.quick = !*whole
			t.Log(e.claim)
			if err := b.measure(t.Context(), e); err != nil {
				t.Fatal(err)
			}
			for _, r := range b.rows {
				t.Log(r)
				if r.what == "" || r.unit == "" || r.why == "" || r.verdict == "" || strings.Contains(r.String(), "%!") || r.ratio.known() && r.ratioTo == "" {
					t.Errorf("the row is not complete: %+v", r)
				}
			}
			if len(b.rows) == 0 {
				t.Error("no rows")
			}
			for _, doubt := range b.doubts {
				t.Logf("INVALID: %s", doubt)
			}
			if *whole && len(b.doubts) > 0 {
				t.Fail()
			}
		})
	}
}

// TestLabsEndWithTheirContext checks that a lab ends when its context does, and goleak that no
// goroutine still waits for a child.
func TestLabsEndWithTheirContext(t *testing.T) {
	for _, e := range experiments() {
		if !slices.Contains([]string{"conns", "workers"}, e.name) {
			continue
		}
		ctx, cancel := context.WithCancel(t.Context())
		b := newBench(t) // it would take long
		b.say = func(string, ...any) { cancel() }
		ended := make(chan error, 1)
		go func() { ended <- b.measure(ctx, e) }()
		select {
		case err := <-ended:
			if err == nil || ctx.Err() == nil {
				t.Errorf("%s: %v", e.name, err)
			}
		case <-time.After(patience):
			t.Fatalf("%s has not ended", e.name)
		}
	}
}

func TestStageEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, name := range []string{"article-direct", ownName(engine.Engine{}), "article-images", "tasks"} {
		if err := Serve(ctx, name, strings.NewReader(""), &strings.Builder{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestStageRefusesOrders(t *testing.T) {
	s := startStage(t, "objects")
	for _, order := range []string{"time nothing 1ms", "time make/8 soon", "profile"} {
		var answer done
		if s.order(t, order, &answer); answer.Error == "" {
			t.Errorf("%q was obeyed", order)
		}
	}
	var took timing
	if s.order(t, "time make/64 1ms", &took); took.NS <= 0 || took.Bytes < 64 || took.Allocs < 0.9 {
		t.Errorf("making 64 bytes: %+v", took)
	}
	if s.order(t, "time struct/new 1ms", &took); took.Allocs < 0.9 || took.Bytes < 7 || took.Bytes > 20 {
		t.Errorf("making the third article's struct, of 8 bytes and one allocation: %+v", took)
	}
}

func TestShortName(t *testing.T) {
	for function, want := range map[string]string{
		"runtime.mallocgc": "runtime.mallocgc",
		"github.com/hone-go/hone/pool.(*Buffers).Get": "pool.(*Buffers).Get",
		strings.Repeat("x", 100):                      strings.Repeat("x", 60) + "…",
	} {
		if got := shortName(function); got != want {
			t.Errorf("%s: %q, want %q", function, got, want)
		}
	}
}
