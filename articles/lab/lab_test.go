package lab

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/internal/testrun"
)

// TestEveryLab runs each lab quickly and checks that figures are present, not their
// values.
func TestEveryLab(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			if name != "workers" && !testrun.All() {
				t.Skip("takes a second or two, as each lab does; HONE_TEST_ALL=1 runs it")
			}
			ctx, cancel := context.WithTimeout(t.Context(), 6*patience)
			defer cancel()
			r, err := Run(ctx, quickPlan(t, name))
			if err != nil {
				t.Fatal(err)
			}
			if r.Schema != "hone.lab/1" || !r.Rough || len(r.Labs) != 1 || r.Labs[0].Name != name || r.Valid != (len(r.InvalidReasons) == 0) {
				t.Fatalf("report %+v", r)
			}
			checkRows(t, r.Labs[0])
			checkText(t, r)
			if p := r.Labs[0].Profiles; name == "workers" &&
				(len(p) != 2 || p[0].Of != "tasks" || p[0].Kind != "cpu" || p[1].Kind != "allocs" || len(p[0].Data) == 0) {
				t.Errorf("profiles %v", p)
			}
		})
	}
}

func checkRows(t *testing.T, l *Lab) {
	t.Helper()
	if len(l.Rows) == 0 {
		t.Error("no rows")
	}
	verdicts := []Verdict{Holds, HoldsLess, Contradicted, Untold, NoClaim}
	for _, r := range l.Rows {
		switch {
		case r.What == "" || r.Unit == "" || r.Why == "" || !slices.Contains(verdicts, r.Verdict):
			t.Errorf("a row is not complete: %+v", r)
		case r.Measured == nil && r.Verdict != Untold:
			t.Errorf("%s: %s without a figure", r.What, r.Verdict)
		case r.Measured != nil && (*r.Low > *r.Measured || *r.Measured > *r.High):
			t.Errorf("%s: %v is not between %v and %v", r.What, *r.Measured, *r.Low, *r.High)
		case (r.Ratio == nil) != (r.RatioTo == ""):
			t.Errorf("%s: the ratio %v is to %q", r.What, r.Ratio, r.RatioTo)
		case strings.Contains(r.Why, "%!") || strings.Contains(r.What, "%!"):
			t.Errorf("a row with a verb that was not filled in: %+v", r)
		}
	}
}

func checkText(t *testing.T, r *Report) {
	t.Helper()
	var text strings.Builder
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(text.String(), "VALID, and rough") && !strings.HasPrefix(text.String(), "INVALID: ") {
		t.Errorf("the text opens with %.40q", text.String())
	}
	for line := range strings.Lines(text.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > columns {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
	if data, err := json.Marshal(r); err != nil || !json.Valid(data) {
		t.Errorf("JSON: %v", err)
	}
}

func TestUnknownNames(t *testing.T) {
	_, err := Run(t.Context(), quickPlan(t, "ladder", "snakes"))
	unknown := new(UnknownError)
	if !errors.As(err, &unknown) || unknown.Name != "snakes" || !slices.Equal(unknown.Known, Names()) {
		t.Errorf("an unknown lab: %v", err)
	}
	if err := Serve(t.Context(), "snakes", strings.NewReader(""), &strings.Builder{}); !errors.As(err, &unknown) || !slices.Contains(unknown.Known, "article-direct") {
		t.Errorf("an unknown stage: %v", err)
	}
	if _, err := Run(t.Context(), Plan{}); err == nil {
		t.Error("a plan without a command for its stages was run")
	}
}

// TestRunEndsWithItsContext checks that Run ends with its context's cause at any moment,
// and goleak that no goroutine still waits for a child.
func TestRunEndsWithItsContext(t *testing.T) {
	for _, name := range []string{"ladder", "conns", "workers"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		enough := errors.New("enough")
		plan := quickPlan(t, name)
		plan.Quick = false // it would take long
		plan.Say = func(string) { cancel(enough) }
		ended := make(chan error, 1)
		go func() {
			_, err := Run(ctx, plan)
			ended <- err
		}()
		select {
		case err := <-ended:
			if !errors.Is(err, enough) {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(patience):
			t.Fatalf("%s has not ended", name)
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
