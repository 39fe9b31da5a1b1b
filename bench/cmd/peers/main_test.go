package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/hone-go/hone/bench/drive"
	"github.com/hone-go/hone/bench/report"
)

// TestMain is a client when it is run as one: the runs below start this program.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == clientCommand {
		if err := drive.Obey(context.Background(), os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// peers runs the command and returns what it prints and its exit code.
func peers(t *testing.T, ctx context.Context, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, log bytes.Buffer
	err := run(ctx, args, strings.NewReader(""), &out, &log)
	if err != nil {
		code = exitFailed
		if f := new(failure); errors.As(err, &f) {
			code = f.code
		}
		log.WriteString(err.Error())
	}
	return out.String(), log.String(), code
}

// TestHelpOfMake checks that make's help says how long the races take at most.
func TestHelpOfMake(t *testing.T) {
	text, err := os.ReadFile("../../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(", within %.0f minutes, and store the result", fullLimit.Minutes())
	for _, target := range []string{"bench-peers", "bench-http", "bench-ws"} {
		_, help, _ := strings.Cut(string(text), "\n"+target+": ## ")
		if help, _, _ = strings.Cut(help, "\n"); !strings.HasSuffix(help, want) {
			t.Errorf("%s: %q, want …%q", target, help, want)
		}
	}
}

func TestRace(t *testing.T) {
	out, log, code := peers(t, t.Context(), "race", "--quick", "--json", "--seed", "5", "--servers", "net,hone-events", "--only", "A,O,E,S,idle")
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, log)
	}
	p := new(report.Peers)
	if err := json.Unmarshal([]byte(out), p); err != nil {
		t.Fatal(err)
	}
	if p.Schema != report.PeersSchema || p.Valid || len(p.InvalidReasons) != 1 || p.Settings.Seed != 5 {
		t.Errorf("%+v, %+v", p.Head, p.Settings)
	}
	if m := p.Machine; m.Kernel == "" || m.Go == "" || m.CPUs < 1 {
		t.Errorf("%+v", m)
	}
	seen := make(map[string]int)
	for _, s := range p.Samples {
		seen[s.Scenario]++
		idle := strings.HasPrefix(s.Scenario, "idle")
		if (s.CPU == nil) != idle || (s.PerConn == nil) != (!idle && s.Scenario != "E") || s.Error != "" {
			t.Errorf("%+v", s)
		}
	}
	for _, name := range []string{"A", "O", "E", "S", "idle-1k"} {
		if seen[name] != 2 {
			t.Errorf("%s has %d samples, not 2", name, seen[name])
		}
	}
}

func TestHTTP(t *testing.T) {
	path := filepath.Join(t.TempDir(), "h.json")
	out, log, code := peers(t, t.Context(), "http", "--quick", "-o", path, "--servers", "net/http,http1-events", "--only", "hello,pipelined,TLS,lent")
	if code != 0 || out != "" {
		t.Fatalf("exit code %d\n%s\n%s", code, out, log)
	}
	p, err := report.Read[report.Peers](path, report.HTTPSchema)
	if err != nil {
		t.Fatal(err)
	}
	if p.Valid || len(p.InvalidReasons) != 1 || len(p.Samples) != 8 {
		t.Errorf("%+v, %d samples", p.Head, len(p.Samples))
	}
	for _, s := range p.Samples {
		if lent := s.Scenario == "lent-1k"; s.Error != "" || (s.CPU == nil) != lent || (s.PerConn == nil) == lent {
			t.Errorf("%+v", s)
		}
	}
}

func TestWS(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w.json")
	out, log, code := peers(t, t.Context(), "ws", "--quick", "-o", path, "--servers", "gws,hone-events", "--only", "100x16,idle,push,deaf")
	if code != 0 || out != "" {
		t.Fatalf("exit code %d\n%s\n%s", code, out, log)
	}
	p, err := report.Read[report.Peers](path, report.WSSchema)
	if err != nil {
		t.Fatal(err)
	}
	if p.Valid || len(p.InvalidReasons) != 1 || len(p.Samples) != 7 {
		t.Errorf("%+v, %d samples", p.Head, len(p.Samples))
	}
	for _, s := range p.Samples {
		push, deaf := s.Push != nil && s.Push.During != nil && s.Push.CPU != nil, s.Push != nil && s.Push.Closed == 50
		if s.Error != "" || (s.CPU != nil) != (s.Scenario == "100x16" && s.Requests > 0) /* none on a busy machine */ || (s.PerConn != nil) != (s.Scenario == "idle-1k") || push != (s.Scenario == "push") || deaf != (s.Scenario == "deaf") {
			t.Errorf("%+v", s)
		}
	}
}

// The first article's server falls to a length of 3, and net's does not.
func TestFaults(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.json")
	out, log, code := peers(t, t.Context(), "faults", "--quick", "-o", path, "--servers", "frames/net,frames/article", "--only", "impossible-length,sigterm-under-load")
	if code != 0 || out != "" {
		t.Fatalf("exit code %d\n%s\n%s", code, out, log)
	}
	f, err := report.Read[report.Torture](path, report.TortureSchema)
	if err != nil {
		t.Fatal(err)
	}
	if f.Valid || len(f.InvalidReasons) != 1 || len(f.Outcomes) != 2 {
		t.Fatalf("%+v, %+v", f.Head, f.Outcomes)
	}
	for _, o := range f.Outcomes {
		want := map[string]string{"frames/article": "fell", "frames/net": "survived"}[o.Server]
		if o.Verdict != want || want == "fell" && !strings.Contains(o.Words, "the process ends") {
			t.Errorf("%+v, want %s", o, want)
		}
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out bytes.Buffer
	// The first line is written once the servers are being built, the third with
	// the first sample.
	lines := lineWriter(func(n int) {
		if n == 3 {
			cancel()
		}
	})
	err := run(ctx, []string{"race", "--quick", "--servers", "net"}, strings.NewReader(""), &out, lines)
	f := new(failure)
	if !errors.As(err, &f) || f.code != exitInterrupted {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "INVALID") {
		t.Errorf("%s", out.String())
	}
}

// lineWriter counts the lines that are written.
func lineWriter(each func(n int)) io.Writer {
	n := 0
	return writerFunc(func(p []byte) (int, error) {
		n += bytes.Count(p, []byte("\n"))
		each(n)
		return len(p), nil
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestWrongUse(t *testing.T) {
	for _, args := range [][]string{
		{}, {"nonsense"}, {"race", "--only", "Z"}, {"race", "more"}, {"race", "--rounds", "0"}, {"race", "--servers", "nobody"},
		{"http", "--only", "A"}, {"http", "--servers", "net"}, {"ws", "--only", "hello"}, {"ws", "--servers", "net"}, {"faults", "--only", "Z"}, {"faults", "--nonsense"}, {"generators", "more"}, {"generators", "--rounds", "0"}, {"stalls"}, {"stalls", "1s", "x"}, {"tables", "--nonsense"}, {"versions", "more"},
	} {
		if _, log, code := peers(t, t.Context(), args...); code != exitUsage {
			t.Errorf("%q: exit code %d\n%s", args, code, log)
		}
	}
}

func TestTablesCommand(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(path, []byte("<!-- bench: peers.json run -->\nold\n<!-- bench end -->\n<!-- bench: versions.json -->\n<!-- bench end -->\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, log, code := peers(t, t.Context(), "tables", path); code != 0 {
		t.Fatal(log)
	}
	page, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(page), "old") {
		t.Errorf("%v\n%s", err, page)
	}
}
