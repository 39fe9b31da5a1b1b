package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/command"
	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/knee"
	"github.com/hone-go/hone/tool/record"
)

// pacedServer answers a request every so often, whatever machine it is on: each has
// its moment, and waits for it.
func pacedServer(t *testing.T, every time.Duration) string {
	t.Helper()
	var mu sync.Mutex
	var next time.Time
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		if now := time.Now(); next.Before(now) {
			next = now
		}
		next = next.Add(every)
		timer := time.NewTimer(time.Until(next))
		mu.Unlock()
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// kneeJSON runs hone knee, which may find the machine too busy to say anything, and
// returns the exit code and the result.
func kneeJSON(t *testing.T, args ...string) (code int, report knee.Report) {
	t.Helper()
	var out, said strings.Builder
	code = command.Run(t.Context(), newRoot(), append([]string{"knee", "--json"}, args...), strings.NewReader(""), &out, &said)
	if err := json.Unmarshal([]byte(out.String()), &report); err != nil {
		t.Fatalf("exit code %d, %v: %s%s", code, err, out.String(), said.String())
	}
	if report.Schema != "hone.knee/2" || report.Valid != (code == exit.OK || code == exit.Missed) || report.Valid != (len(report.InvalidReasons) == 0) || len(report.Trials) == 0 {
		t.Errorf("exit code %d: %+v", code, report)
	}
	return code, report
}

// TestKnee searches for the capacity of a server that is known. How much of it is
// found on a busy machine is chance, but never more than there is. What a search
// finds when nothing is chance is in package knee's tests.
func TestKnee(t *testing.T) {
	t.Parallel() // it waits more than it works
	store := t.TempDir() + "/runs"
	code, report := kneeJSON(t, pacedServer(t, 5*time.Millisecond), "--expect", "p50<60ms", "--expect", "p50<80ms", "--from", "140", "--to", "400",
		"--width", "30%", "--for", "900ms", "--cool", "50ms", "--confirm", "1", "--save", "paced", "--store", store)
	if code != exit.OK && code != exit.Invalid && code != exit.Missed {
		t.Errorf("exit code %d: %+v", code, report)
	}
	if report.Knee.Met != nil && *report.Knee.Met > 230 {
		t.Errorf("200 answers a second are all there are, and it found %g", *report.Knee.Met)
	}
	if code == exit.OK && report.Knee.State != knee.Found.String() || report.Unit != "req/s" {
		t.Errorf("%+v", report)
	}
	if code == exit.OK && *report.Knee.Missed > 1.3001**report.Knee.Met {
		t.Errorf("the range is %g to %g", *report.Knee.Met, *report.Knee.Missed)
	}
	s, err := record.OpenRead(store)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := s.Get("paced")
	if err != nil {
		t.Fatal(err)
	}
	if kept.Made != "knee" || len(kept.Samples) != len(report.Trials) || kept.Scenario.Settings["axis"] != "rate" || kept.Scenario.Settings["goal"] != "p50<60ms,p50<80ms" || kept.Environment.Strict["topology"] != "loopback" {
		t.Errorf("%s: %d samples of %d trials, %+v", kept.Made, len(kept.Samples), len(report.Trials), kept.Scenario)
	}
	for i, sample := range kept.Samples {
		if m := sample.Metrics[0]; m.Name != "load" || m.Unit != "req/s" || m.Value != report.Trials[i].Load || sample.Order != i+1 || sample.Valid != report.Trials[i].Valid {
			t.Errorf("sample %d is %+v, its trial %+v", i, sample, report.Trials[i])
		}
	}
	var html, said strings.Builder
	if code := command.Run(t.Context(), newRoot(), []string{"report", "paced", "--store", store}, strings.NewReader(""), &html, &said); code != exit.OK {
		t.Fatalf("exit code %d: %s", code, said.String())
	}
	if n := strings.Count(html.String(), `,"full":`); n != len(report.Trials) {
		t.Errorf("the report has %d of %d trials", n, len(report.Trials))
	}
}

// --quick shortens what is not given.
func TestQuickKnee(t *testing.T) {
	for _, c := range []struct {
		args    []string
		length  time.Duration
		width   float64
		confirm int
	}{
		{nil, defaultTrial, 0.02, 3},
		{[]string{"--quick"}, time.Second, 0.1, 1},
		{[]string{"--quick", "--for", "2s", "--confirm", "2"}, 2 * time.Second, 0.1, 2},
	} {
		f, cmd := new(kneeFlags), &cobra.Command{Use: "knee"}
		f.define(cmd)
		if err := cmd.ParseFlags(append(c.args, "--expect", "p99<5ms")); err != nil {
			t.Fatal(err)
		}
		plan, err := f.plan(cmd, "127.0.0.1:1")
		if err != nil || f.load.Plan.For != c.length || plan.Width != c.width || plan.Confirm != c.confirm {
			t.Errorf("%q: trials of %v, width %v, %d confirm (%v)", c.args, f.load.Plan.For, plan.Width, plan.Confirm, err)
		}
	}
}
