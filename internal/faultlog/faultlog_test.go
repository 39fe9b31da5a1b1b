package faultlog_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hone-go/hone/internal/faultlog"
)

// line is a line of a JSON log.
type line struct {
	Time       time.Time
	Level      string
	Msg        string
	Reason     string
	Panic      string
	Stack      string
	Remote     string
	Suppressed int
}

// records is a log that tests read.
type records struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *records) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *records) logger() *slog.Logger { return slog.New(slog.NewJSONHandler(r, nil)) }

// lines returns the lines so far.
func (r *records) lines(t *testing.T) (all []line) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for d := json.NewDecoder(bytes.NewReader(r.text.Bytes())); ; {
		var l line
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
}

// panics panics and logs it.
func panics(l *faultlog.Log, to *slog.Logger, value any) {
	defer func() { l.Panic(to, "peer", recover()) }()
	panic(value)
}

// counted is how many faults of a reason the lines tell.
func counted(lines []line, reason string) (n int) {
	for _, l := range lines {
		if l.Reason == reason {
			if n += l.Suppressed; l.Msg != faultlog.Further {
				n++
			}
		}
	}
	return n
}

// A burst is a line at once, and after two seconds a line with the number of the others,
// although no other fault follows.
func TestBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l faultlog.Log
		var log records
		began := time.Now()
		for range 1000 {
			panics(&l, log.logger(), "boom")
		}
		if got := log.lines(t); len(got) != 1 || got[0].Panic != "boom" || got[0].Level != "ERROR" || got[0].Remote != "peer" || !strings.Contains(got[0].Stack, "faultlog_test.panics(") {
			t.Fatalf("at once the log has %+v, want one line with the panic and its stack", got)
		}
		<-time.After(time.Hour)
		got := log.lines(t)
		if len(got) != 2 || got[1].Msg != faultlog.Further || got[1].Suppressed != 999 || got[1].Reason != "panicked" || got[1].Level != "ERROR" {
			t.Fatalf("then it has %+v, want another line with 999 suppressed", got)
		}
		if after := got[1].Time.Sub(began); after != 2*time.Second {
			t.Errorf("it came after %v, want 2s", after)
		}
		panics(&l, log.logger(), "again")
		if got := log.lines(t); len(got) != 3 || got[2].Panic != "again" || got[2].Suppressed != 0 {
			t.Errorf("a later fault: %+v, want a line of its own", got)
		}
		l.Close()
	})
}

// Faults that go on are a line a second, each with the number of the others, and nothing is
// counted twice or lost: 100,000 panics within 100 s are less than a megabyte.
func TestFlood(t *testing.T) {
	const faults, pause = 100_000, time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		var l faultlog.Log
		var log records
		for range faults {
			panics(&l, log.logger(), "boom")
			<-time.After(pause)
		}
		l.Close()
		lines := log.lines(t)
		if want := int(faults * pause / time.Second); len(lines) != want && len(lines) != want+1 {
			t.Errorf("%d lines, want about %d", len(lines), want)
		}
		if n := counted(lines, "panicked"); n != faults {
			t.Errorf("the lines tell %d faults, want %d", n, faults)
		}
		if size := log.text.Len(); size > 1<<20 {
			t.Errorf("%d bytes of log, want at most a megabyte", size)
		}
	})
}

// Reasons do not suppress each other, whatever the order of their faults; the counts are told
// when the log is closed.
func TestReasons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l faultlog.Log
		var log records
		for range 3 {
			for _, reason := range []string{"a", "b"} {
				l.Write(log.logger(), slog.LevelWarn, reason, func() (string, []any) { return "said", []any{"panic", "p" + reason} })
			}
		}
		began := time.Now()
		l.Close()
		if took := time.Since(began); took > 0 {
			t.Errorf("Close took %v", took)
		}
		lines := log.lines(t)
		if len(lines) != 4 || counted(lines, "a") != 3 || counted(lines, "b") != 3 || lines[0].Panic != "pa" || lines[1].Panic != "pb" {
			t.Errorf("the log has %+v, want a line and a count for a and b", lines)
		}
		<-time.After(time.Hour)
		if more := log.lines(t); len(more) != len(lines) {
			t.Errorf("after Close there are %d more lines", len(more)-len(lines))
		}
	})
}

// Lines that nobody reads are not made.
func TestUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l faultlog.Log
		var log records
		for _, to := range []*slog.Logger{nil, slog.New(slog.DiscardHandler), slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))} {
			l.Write(to, slog.LevelWarn, "a", func() (string, []any) {
				t.Error("a line was made")
				return "", nil
			})
		}
		l.Write(log.logger(), slog.LevelWarn, "a", func() (string, []any) { return "said", nil })
		l.Close()
		if lines := log.lines(t); len(lines) != 1 || lines[0].Suppressed != 0 {
			t.Errorf("the log has %+v, want one line", lines)
		}
	})
}

// A client that chooses the panic value does not choose the size of the log.
func TestLongPanic(t *testing.T) {
	var l faultlog.Log
	var log records
	panics(&l, log.logger(), strings.Repeat("long ", 1<<20))
	l.Close()
	lines := log.lines(t)
	if len(lines) != 1 || !strings.HasPrefix(lines[0].Panic, "long long ") || !strings.HasSuffix(lines[0].Panic, "… (5242880 bytes)") || log.text.Len() > 80<<10 {
		t.Errorf("%d lines of %d bytes", len(lines), log.text.Len())
	}
}

// Faults at the same time as timers and Close are all counted. With the race detector this also
// checks the locks.
func TestFaultsAtTheSameTime(t *testing.T) {
	const each, at = 2000, 4
	l := faultlog.Log{Interval: 100 * time.Microsecond}
	var log records
	var all sync.WaitGroup
	for range at {
		all.Go(func() {
			for range each {
				l.Write(log.logger(), slog.LevelWarn, "a", func() (string, []any) { return "said", nil })
			}
		})
	}
	all.Wait()
	l.Close()
	if n := counted(log.lines(t), "a"); n != each*at {
		t.Errorf("the lines tell %d faults, want %d", n, each*at)
	}
}
