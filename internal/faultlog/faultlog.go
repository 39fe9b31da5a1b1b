// Package faultlog writes the log lines of repeated faults: at most one a second for each
// reason, and how many lines were suppressed.
package faultlog

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

// Log limits the lines of one server. The zero value is ready for use.
//
// Every suppressed line is counted in a line that is written: the next one of its reason, or
// one that says Further, two intervals after the last line at the latest.
type Log struct {
	// Interval is the shortest time between two lines of a reason. Zero: one second.
	// Negative: no limit.
	Interval time.Duration

	mu      sync.Mutex
	closed  bool
	reasons map[string]*repeated
	tellers sync.WaitGroup // running or pending timers
}

// repeated is a reason's state.
type repeated struct {
	last       time.Time // of the last line
	suppressed int       // since the last line that said so
	teller     *time.Timer
	to         *slog.Logger // of the last suppressed line
	level      slog.Level
}

// Further is the text of a line that only has the number of suppressed lines.
const Further = "further lines suppressed"

// Panicked is the reason of Panic's lines.
const Panicked = "panicked"

// The longest panic value and stack in a line, in bytes: clients may choose the value.
const (
	longestValue = 4 << 10
	longestStack = 64 << 10
)

// Write logs the line for a fault to a logger; nil logs nothing. It calls line only for what is
// written.
func (l *Log) Write(to *slog.Logger, level slog.Level, reason string, line func() (text string, attrs []any)) {
	ctx := context.Background()
	if to == nil || !to.Enabled(ctx, level) {
		return
	}
	suppressed, ok := l.admit(to, level, reason)
	if !ok {
		return
	}
	text, attrs := line()
	if suppressed > 0 {
		attrs = append(attrs, "suppressed", suppressed)
	}
	to.Log(ctx, level, text, append(attrs, "reason", reason)...)
}

// Panic logs the panic of a connection's handler. The deferred function that has recovered value
// calls it, so that the stack is the handler's.
func (l *Log) Panic(to *slog.Logger, remote, value any) {
	l.Write(to, slog.LevelError, Panicked, func() (string, []any) {
		return "panic in a handler", []any{
			"remote", remote, "panic", cut(fmt.Sprint(value), longestValue), "stack", cut(string(debug.Stack()), longestStack)}
	})
}

// admit reports whether a line may be written, and how many were suppressed before it.
func (l *Log) admit(to *slog.Logger, level slog.Level, reason string) (suppressed int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	interval := l.Interval
	if interval == 0 {
		interval = time.Second
	}
	r := l.reasons[reason]
	if r == nil {
		if l.reasons == nil {
			l.reasons = map[string]*repeated{}
		}
		r = &repeated{}
		l.reasons[reason] = r
	}
	now := time.Now()
	if since := now.Sub(r.last); since < interval {
		r.suppressed++
		r.to, r.level = to, level
		if r.teller == nil && !l.closed {
			l.tellers.Add(1)
			r.teller = time.AfterFunc(2*interval-since, func() {
				defer l.tellers.Done()
				l.tell(reason)
			})
		}
		return 0, false
	}
	suppressed = r.suppressed
	r.last, r.suppressed = now, 0
	l.stop(r)
	return suppressed, true
}

// stop stops the reason's timer; l.mu is held.
func (l *Log) stop(r *repeated) {
	if r.teller != nil && r.teller.Stop() {
		l.tellers.Done()
	}
	r.teller = nil
}

// tell logs how many lines were suppressed since the last line.
func (l *Log) tell(reason string) {
	l.mu.Lock()
	r := l.reasons[reason]
	suppressed, to, level := r.suppressed, r.to, r.level
	r.suppressed = 0
	l.stop(r)
	l.mu.Unlock()
	if suppressed > 0 {
		to.Log(context.Background(), level, Further, "suppressed", suppressed, "reason", reason)
	}
}

// Close logs how many lines were suppressed since the last line of each reason. No goroutine of
// the Log is left when it returns.
func (l *Log) Close() {
	l.mu.Lock()
	l.closed = true
	reasons := slices.Sorted(maps.Keys(l.reasons))
	l.mu.Unlock()
	for _, reason := range reasons {
		l.tell(reason)
	}
	l.tellers.Wait()
}

// cut returns the beginning of a long text.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return fmt.Sprintf("%s… (%d bytes)", text[:most], len(text))
}
