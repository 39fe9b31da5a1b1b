package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/hone-go/hone/bench/table"
	"github.com/hone-go/hone/internal/testrun"
)

// TestMain is the server that stalls when it is run as one: the runs below start this program.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "stalls" {
		if err := run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr); err != nil {
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

// TestRun has a row of each kind, with two servers each.
func TestRun(t *testing.T) {
	for _, c := range []struct {
		rows, servers string
		samples       int // of the rows together, at least
	}{
		{"frames/A frames/idle", "net,hone-events", 12},
		{"http/TLS http/idle-TLS", "net/http,http1-events", 12},
		{"http/HTTP2", "http1-events", 3},
		{"frames/once http/streams", "floor,net,net/http,http1-events", 12},
		{"gateway", "honed", 2},
		{"ws/100x16 ws/push", "gws,hone-events", 12},
	} {
		t.Run(c.rows, func(t *testing.T) {
			out, log, code := peers(t, t.Context(), append([]string{"run", "-quick", "-seed", "5", "-servers", c.servers}, strings.Fields(c.rows)...)...)
			if code != 0 {
				t.Fatalf("exit code %d\n%s", code, log)
			}
			samples, names := 0, ""
			for rows := json.NewDecoder(strings.NewReader(out)); rows.More(); {
				r := new(table.Row)
				if err := rows.Decode(r); err != nil {
					t.Fatal(err)
				}
				names, samples = names+" "+r.Name, samples+len(r.Samples)
				if r.Schema != table.Schema || r.Valid || len(r.InvalidReasons) != 1 || r.Machine.Kernel == "" {
					t.Errorf("%+v", r.Head)
				}
				for _, s := range r.Samples {
					if s.Error != "" || s.Figures["cpu_us"] <= 0 && s.Figures["per_conn_bytes"] <= 0 && s.Figures["rate"] > 0 {
						t.Errorf("%s: %+v", r.Name, s)
					}
				}
			}
			if names[1:] != c.rows || samples < c.samples {
				t.Errorf("%s with %d samples\n%s", names, samples, log)
			}
		})
	}
}

// TestRedis has every server answer every case.
func TestRedis(t *testing.T) {
	out, log, code := peers(t, t.Context(), "run", "-quick", "resp")
	if strings.Contains(log, "left out") || strings.Contains(out, "redis-benchmark (make deps") {
		testrun.Lacks(t, "redis-server or redis-benchmark (make deps installs them)")
	}
	if n := strings.Count(out, `"cpu_us":`); code != 0 || n != 15 {
		t.Errorf("exit code %d, %d figures\n%s", code, n, log)
	}
}

// The first article's server falls to a length of 3, and net's does not.
func TestFaults(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.json")
	_, log, code := peers(t, t.Context(), "faults", "-wait", "3s", "-o", path, "-servers", "frames/net,frames/article", "-only", "impossible-length,sigterm-under-load")
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, log)
	}
	text, err := os.ReadFile(path)
	f := new(table.Torture)
	if err := errors.Join(err, json.Unmarshal(text, f)); err != nil {
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

// TestInterrupted ends a run at its first sample.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := run(ctx, []string{"run", "-quick", "-servers", "net,gnet", "frames/A", "frames/B"}, strings.NewReader(""), new(bytes.Buffer), writerFunc(func(p []byte) (int, error) {
		cancel()
		return len(p), nil
	}))
	if f := new(failure); !errors.As(err, &f) || f.code != exitInterrupted {
		t.Fatal(err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestWrongUse(t *testing.T) {
	for _, args := range [][]string{
		{}, {"nonsense"}, {"run", "nothing"}, {"run", "-rounds", "x"}, {"faults"}, {"faults", "-o", "x", "-only", "Z"}, {"faults", "-nonsense"}, {"stalls"}, {"stalls", "1s", "x"}, {"tables", "-nonsense"}, {"versions", "more"},
	} {
		if _, log, code := peers(t, t.Context(), args...); code != exitUsage {
			t.Errorf("%q: exit code %d\n%s", args, code, log)
		}
	}
}

func TestTablesCommand(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(path, []byte("<!-- table: facts of frames/A -->\nold\n<!-- table end -->\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, log, code := peers(t, t.Context(), "tables", path)
	page, err := os.ReadFile(path)
	if code != 0 || err != nil || strings.Contains(string(page), "old") || !strings.Contains(string(page), "- frames/A: ") {
		t.Errorf("%d %s %v\n%s", code, log, err, page)
	}
}
