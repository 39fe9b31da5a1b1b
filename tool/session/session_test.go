package session

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/record"
)

// opened returns a session that stores its runs in a new store.
func opened(t *testing.T, output Output) (s *Session, stdout, stderr *strings.Builder) {
	t.Helper()
	stdout, stderr = new(strings.Builder), new(strings.Builder)
	s, err := Open(t.Context(), Plan{
		Command: "load", Stdout: stdout, Stderr: stderr, Output: output, Keep: true, Store: Store{Path: filepath.Join(t.TempDir(), "runs")},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(context.Background()) })
	return s, stdout, stderr
}

// ended returns work with a result and a run.
func ended() End {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	run := &record.Run{Name: "half", Made: "load", At: at, Samples: []record.Sample{{Order: 1, At: at, Reasons: []string{"interrupted"}}}}
	return End{JSON: map[string]int{"n": 1}, Text: func(w io.Writer) error { _, err := io.WriteString(w, "VALID\n"); return err }, Runs: []*record.Run{run}}
}

// A failing store loses the run but not the result.
func TestFinishPrintsBeforeItKeeps(t *testing.T) {
	s, stdout, _ := opened(t, Output{})
	if err := os.RemoveAll(s.plan.Store.Path); err != nil {
		t.Fatal(err)
	}
	e := ended()
	e.Kept = func() error { t.Error("it says that the run is kept"); return nil }
	e.Verdict = &exit.Error{Code: exit.Invalid}
	err := s.Finish(e)
	end := new(exit.Error)
	if !errors.As(err, &end) || end.Code != exit.Failed {
		t.Fatalf("it ends with %v", err)
	}
	if said := err.Error(); !strings.HasPrefix(said, "load: the result was not stored: ") {
		t.Errorf("it says %q", said)
	}
	if stdout.String() != "VALID\n" {
		t.Errorf("standard output has %q", stdout)
	}
}

// What was measured before an interruption is stored, and the output says so.
func TestFinishKeepsWhatThereIs(t *testing.T) {
	s, stdout, stderr := opened(t, Output{JSON: true})
	e := ended()
	e.Partly, e.Err = true, Failure("load", context.Canceled)
	err := s.Finish(e)
	end := new(exit.Error)
	if !errors.As(err, &end) || end.Code != exit.Interrupted {
		t.Errorf("it ends with %v", err)
	}
	kept, err := s.Store.Get("half")
	if err != nil {
		t.Fatal(err)
	}
	if want := "hone: load: stored the measurements so far as " + kept.ID + "\n"; stderr.String() != want {
		t.Errorf("standard error has %q, want %q", stderr, want)
	}
	if stdout.String() != "{\n  \"n\": 1\n}\n" {
		t.Errorf("standard output has %q", stdout)
	}
}

// broken fails every write.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("full") }

// A result that cannot be printed is stored all the same.
func TestFinishKeepsWhatCannotBePrinted(t *testing.T) {
	s, _, _ := opened(t, Output{})
	s.out.Writer = broken{}
	err := s.Finish(ended())
	if err == nil {
		t.Fatal("it ends well")
	}
	if said := err.Error(); said != "load: full" {
		t.Errorf("it says %q", said)
	}
	if _, err := s.Store.Get("half"); err != nil {
		t.Error(err)
	}
}
