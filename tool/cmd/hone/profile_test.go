package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/spf13/cobra"

	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/tool/command"
	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/load/codec"
	"github.com/hone-go/hone/tool/probe"
	"github.com/hone-go/hone/tool/record"
	"github.com/hone-go/hone/tool/trial"
)

// hone runs the command in this process, and returns what it wrote.
func hone(t *testing.T, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	if got := command.Run(ctx, newRoot(), args, strings.NewReader(""), &out, &err); got != want {
		t.Fatalf("hone %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), got, want, &out, &err)
	}
	return out.String(), err.String()
}

// profiledRuns measures a real service before and after something was planted in
// it, with profiles, and keeps both.
func profiledRuns(t *testing.T) (store string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the service is started by sh")
	}
	dir := t.TempDir()
	service, store := filepath.Join(dir, "service"), filepath.Join(dir, "runs")
	if out, err := exec.Command("go", "run", "-exec", "cp", "../../probe/testdata/service", service).CombinedOutput(); err != nil { // keeps what it has linked, unlike go build
		t.Fatalf("%v: %s", err, out)
	}
	addr := testrun.FreeAddr(t)
	profiling := profilingOf(t, "--profile", "cpu,allocs", "--pprof", addr, "--profile-for", "1s")
	if err := profiling.check("bench"); err != nil {
		t.Fatal(err)
	}
	s, err := record.Open(store)
	if err != nil {
		t.Fatal(err)
	}
	for name, planted := range map[string]string{"before": "0", "after": "2000000"} {
		plan := trial.Plan{
			Servers: []trial.Server{{Name: name, Command: "exec " + service + " -addr " + addr + " -planted " + planted}},
			Load:    load.Plan{Target: codec.HTTP{URL: "http://" + addr + "/"}, Conns: 4, Rate: 400, For: 600 * time.Millisecond},
			Samples: 1, Retakes: -1, MaxOthers: 1,
		}
		runs, err := trial.Run(t.Context(), plan)
		if err != nil {
			t.Fatal(err)
		}
		if err := profiling.take(t.Context(), plan, runs); err != nil {
			t.Fatal(err)
		}
		samples := runs[0].Samples
		if last := samples[len(samples)-1]; len(samples) != 2 || last.Valid || last.Unfit != record.Profiled || last.Order != 2 {
			t.Fatalf("%d samples, the last is %v %v, number %d", len(samples), last.Valid, last.Reasons, last.Order)
		}
		if err := s.Add(runs[0]); err != nil {
			t.Fatal(err)
		}
	}
	return store
}

// profilingOf reads bench's flags for profiles.
func profilingOf(t *testing.T, args ...string) *profilingFlags {
	t.Helper()
	f, cmd := new(profilingFlags), &cobra.Command{Use: "bench"}
	f.define(cmd)
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestProfilingFlags(t *testing.T) {
	for want, args := range map[string][]string{
		"": {"--profile", "cpu,allocs", "--pprof", "127.0.0.1:1"},
		"bench: --profile needs --pprof, the address of the server's profiles, as in --pprof 127.0.0.1:6060": {"--profile", "cpu"},
		"bench: --pprof needs --profile, the list of profiles, as in --profile cpu,allocs":                   {"--pprof", "127.0.0.1:1"},
		"bench: --profile cpus: no such profile; did you mean cpu?":                                          {"--profile", "cpus", "--pprof", "127.0.0.1:1"},
		"bench: --profile-for 500ms: use 1s or more":                                                         {"--profile", "cpu", "--pprof", "127.0.0.1:1", "--profile-for", "500ms"},
	} {
		got := ""
		if err := profilingOf(t, args...).check("bench"); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%v: %q, want %q", args, got, want)
		}
	}
	if profilingOf(t).wanted() || profilingOf(t).take(t.Context(), trial.Plan{}, nil) != nil {
		t.Error("nothing was asked for")
	}
}

// A server that runs already is profiled at its address, with the token that it requires.
func TestProfileOfARunningServer(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer hush" {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		runtime.KeepAlive(make([]byte, 16<<20))
		runtime.GC()
		_ = pprof.Lookup("allocs").WriteTo(w, 0) // a client may leave
	}))
	t.Cleanup(server.Close)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("hush\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _ := hone(t, exit.OK, "profile", server.URL, "--kind", "allocs", "--for", "1s", "--pprof-token-file", token)
	if !strings.HasPrefix(out, "allocs of "+server.URL) || !strings.Contains(out, " allocated per second") {
		t.Error(out)
	}
	hone(t, exit.Failed, "profile", server.URL)
	hone(t, exit.Usage, "profile", server.URL, "--for", "1ms")
}

func TestProfile(t *testing.T) {
	t.Parallel() // it waits more than it works
	store := profiledRuns(t)

	// What was planted is the first line.
	out, _ := hone(t, exit.OK, "profile", "after", "--against", "before", "--store", store)
	lines := strings.Split(out[max(0, strings.Index(out, "cpu of ")):], "\n") // behind what a busy machine makes INVALID
	if !regexp.MustCompile(`^cpu of after \([0-9a-f]+\): [0-9.]+ CPU-seconds per million requests, from [0-9,]+ samples of [0-9.]+ s$`).MatchString(lines[0]) ||
		!regexp.MustCompile(`^against before \([0-9a-f]+\): (0|.* s, from [0-9,]+ samples of [0-9.]+ s), so \+`).MatchString(lines[1]) {
		t.Errorf("it begins with\n%s", strings.Join(lines[:3], "\n"))
	}
	head := slices.IndexFunc(lines, func(line string) bool { return strings.HasSuffix(line, "  function") }) // behind a note, if there are few samples
	quiet := !testrun.Race && !strings.Contains(out, "INVALID")                                              // the detector and a busy machine leave few samples, or many of preemption
	if at := slices.IndexFunc(lines, regexp.MustCompile(`^ *\+[0-9.]+ s +.* main\.planted$`).MatchString); at != head+1 && (quiet || at < 0 && !testrun.Race) {
		t.Errorf("the first line is not what was planted:\n%s", out)
	}

	// Programs read the same.
	out, _ = hone(t, exit.OK, "profile", "after", "--against", "before", "--store", store, "--json", "--top", "3")
	var report probe.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatal(err)
	}
	if first := report.Lines[0]; len(report.Lines) != 3 || quiet && (first.Function != "main.planted" || *first.FlatBefore != 0 || first.Flat < 100) || report.Per != probe.PerMillion ||
		*report.Samples < 1 || report.SamplesBefore == nil { // the service before may do too little for a sample
		t.Errorf("%s", out)
	}

	// Another kind.
	out, _ = hone(t, exit.OK, "profile", "before", "--kind", "allocs", "--top", "0", "--store", store)
	if !regexp.MustCompile(`(?m)^allocs of before .* [GT]iB allocated per million requests$`).MatchString(out) || !strings.Contains(out, "main.allocate") {
		t.Errorf("%s", out)
	}
	profileFailures(t, store)
}

// A profile of a load that was not valid says so, and is shown.
func TestProfileOfAnInvalidLoad(t *testing.T) {
	samples := int64(40)
	v := &probe.View{Kind: probe.CPU, Per: probe.PerSecond, Unit: "s", Total: 0.8, Samples: &samples, Doubts: []string{"other programs used 60 % of the CPUs"}}
	r := probe.NewReport(v, []string{"run"})
	var text strings.Builder
	r.WriteTop(&text)
	want := "INVALID: the load of run was not valid: other programs used 60 % of the CPUs\ncpu of run: 0.80 CPU-seconds per second, from 40 samples of 0.02 s\n"
	if r.Valid || len(r.InvalidReasons) != 1 || !strings.HasPrefix(text.String(), want) {
		t.Errorf("valid %v: %s", r.Valid, text.String())
	}
}

// Profiles of different settings differ by the settings, so they are refused by name.
func TestProfileAgainstOtherSettings(t *testing.T) {
	cpu := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		Function:   []*profile.Function{{ID: 1, Name: "main.work"}},
		Location:   []*profile.Location{{ID: 1}},
	}
	cpu.Location[0].Line = []profile.Line{{Function: cpu.Function[0]}}
	cpu.Sample = []*profile.Sample{{Location: cpu.Location, Value: []int64{100, 1e9}}}
	var data bytes.Buffer
	if err := cpu.Write(&data); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	store, file := filepath.Join(dir, "runs"), filepath.Join(dir, "cpu.pprof")
	if err := os.WriteFile(file, data.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := record.Open(store)
	if err != nil {
		t.Fatal(err)
	}
	for i, run := range []record.Run{
		{Name: "before", Scenario: record.Scenario{Settings: map[string]string{"conns": "8"}}, Environment: record.Environment{Strict: map[string]string{"cpu": "X"}}},
		{Name: "alike", Scenario: record.Scenario{Settings: map[string]string{"conns": "8"}}, Environment: record.Environment{Strict: map[string]string{"cpu": "X"}}},
		{Name: "after", Scenario: record.Scenario{Settings: map[string]string{"conns": "64"}}, Environment: record.Environment{Strict: map[string]string{"cpu": "Y"}}},
	} {
		run.At = time.Unix(int64(i), 0)
		run.Samples = []record.Sample{{Order: 1, At: run.At, Valid: true, Artefacts: []record.Artefact{{Kind: string(probe.CPU), Name: "cpu.pprof", Data: data.Bytes()}}}}
		if err := s.Add(&run); err != nil {
			t.Fatal(err)
		}
	}
	out, said := hone(t, exit.Invalid, "profile", "after", "--against", "before", "--store", store)
	want := `profile: cpu differs: "X" and "Y", conns differs: "8" and "64"; if you mean to compare that, add --across cpu,conns`
	if !strings.Contains(said, want) || out != "" {
		t.Errorf("%s%s", out, said)
	}
	hone(t, exit.Invalid, "profile", "after", "--against", "before", "--store", store, "--across", "cpu")
	hone(t, exit.OK, "profile", "after", "--against", "before", "--store", store, "--across", "cpu,conns")
	hone(t, exit.OK, "profile", "alike", "--against", "before", "--store", store)
	hone(t, exit.OK, "profile", file, "--against", "before", "--store", store) // nobody knows a file's settings
}

// profileFailures are what cannot be shown, and files.
func profileFailures(t *testing.T, store string) {
	_, err := hone(t, exit.Failed, "profile", "nobody", "--store", store)
	if !strings.Contains(err, `profile: "nobody" is not a file, and `) || !strings.Contains(err, "hone run list") {
		t.Errorf("%s", err)
	}
	empty := &profile.Profile{SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}}}
	name := filepath.Join(t.TempDir(), "empty.pprof")
	file, createErr := os.Create(name)
	if createErr != nil {
		t.Fatal(createErr)
	}
	if err := errors.Join(empty.Write(file), file.Close()); err != nil {
		t.Fatal(err)
	}
	_, err = hone(t, exit.Invalid, "profile", name)
	if !strings.Contains(err, "the cpu profile of "+name+" is empty; load the server while it is taken") {
		t.Errorf("%s", err)
	}
	s, openErr := record.OpenRead(store)
	if openErr != nil {
		t.Fatal(openErr)
	}
	kept, getErr := s.Get("after")
	if getErr != nil {
		t.Fatal(getErr)
	}
	for _, a := range kept.Samples[1].Artefacts {
		if a.Kind != string(probe.CPU) {
			continue
		}
		name := filepath.Join(t.TempDir(), "cpu.pprof")
		if err := os.WriteFile(name, a.Data, 0o600); err != nil {
			t.Fatal(err)
		}
		out, _ := hone(t, exit.OK, "profile", name, "--against", "before", "--store", store)
		if !strings.Contains(out, " CPU-seconds per second, from ") || !strings.Contains(out, "main.planted") {
			t.Errorf("%s", out)
		}
		_, err := hone(t, exit.Failed, "profile", name, "--kind", "allocs", "--store", store)
		if !strings.Contains(err, "this is not a allocs profile: it has samples, cpu, not alloc_space; give another --kind") {
			t.Errorf("%s", err)
		}
		return
	}
	t.Error("the run has no CPU profile")
}
