// Package child runs other programs and never leaves one behind.
//
// A child leads a group of its own, so that what it starts ends with it and what
// they use is counted together. It ends when Stop says so; when its context ends;
// and, with all its group, when this process dies, however that is: on Unix a shell
// waits for that beside it. Elsewhere the child has to read its standard input.
package child

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// Child is a running program. Answer and Ask may be called from one goroutine at
// a time, everything else from any.
type Child struct {
	// PID is also the number of its group.
	PID int

	signal bool
	grace  time.Duration
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  chan []byte
	ended  chan struct{} // closed when the process has been waited for
	how    error         // how it ended: read it behind ended
	said   lastWords
	once   sync.Once
}

// Options are how a child is run. The zero value works.
type Options struct {
	// Signal has the group asked to end as a service manager would (SIGTERM),
	// beside the end of its standard input. Windows has no such signal.
	Signal bool
	// Grace is how long it may take to end before it is killed. Zero: 3 s.
	Grace time.Duration
	// Start starts the command in a way of its own. Zero: cmd.Start.
	Start func(*exec.Cmd) error
	// Said is told every line that the child writes, on either stream, from two
	// goroutines. It must return soon and keep nothing of it. Zero: nobody.
	Said func(line []byte)
}

// Start starts a command made by exec.CommandContext, whose streams must be
// unset. What the child writes is read to its end, wanted or not.
func Start(cmd *exec.Cmd, o Options) (*Child, error) {
	c := &Child{cmd: cmd, signal: o.Signal, grace: o.Grace, lines: make(chan []byte, 1), ended: make(chan struct{})}
	if c.grace == 0 {
		c.grace = 3 * time.Second
	}
	var err error
	if c.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	cmd.Stdout = &lineWriter{each: func(line []byte) { c.heard(line, o.Said); c.answer(line) }}
	cmd.Stderr = &lineWriter{each: func(line []byte) { c.heard(line, o.Said) }}
	cmd.WaitDelay = c.grace // for those that it started and that hold its streams
	lead(cmd)
	if o.Start == nil {
		o.Start = (*exec.Cmd).Start
	}
	guard := newGuard()
	if err := o.Start(cmd); err != nil {
		guard.dismiss()
		return nil, err
	}
	c.PID = cmd.Process.Pid
	guard.watch(c.PID)
	go func() {
		c.how = cmd.Wait()
		killGroup(cmd.Process) // whom it left
		awaitGone(c.PID)
		guard.dismiss()
		close(c.lines)
		close(c.ended)
	}()
	return c, nil
}

func (c *Child) heard(line []byte, said func([]byte)) {
	c.said.add(line)
	if said != nil {
		said(line)
	}
}

// answer keeps a line for who waits for one.
func (c *Child) answer(line []byte) {
	select {
	case c.lines <- bytes.Clone(line):
	default: // nobody has asked for so many
	}
}

// Answer waits for a line of JSON on the child's standard output. A line that
// was written before is an answer, too, but only one of them is kept.
func (c *Child) Answer(ctx context.Context, limit time.Duration, answer any) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case line, ok := <-c.lines:
		if !ok {
			return fmt.Errorf("process %d has ended; it said: %s", c.PID, c.Said())
		}
		return json.Unmarshal(line, answer)
	case <-timer.C:
		return fmt.Errorf("process %d has not answered within %v; it said: %s", c.PID, limit, c.Said())
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Ask writes a line to the child's standard input and waits for the answer.
func (c *Child) Ask(ctx context.Context, line string, limit time.Duration, answer any) error {
	if _, err := io.WriteString(c.stdin, line+"\n"); err != nil {
		return fmt.Errorf("process %d takes no orders (%w); it said: %s", c.PID, err, c.Said())
	}
	return c.Answer(ctx, limit, answer)
}

// Ended is closed once the process has ended.
func (c *Child) Ended() <-chan struct{} { return c.ended }

// How says how the process ended: nil is exit code 0. Before, it waits.
func (c *Child) How() error {
	<-c.ended
	return c.how
}

// Stop ends the process and its group, by force if they take too long, and waits.
func (c *Child) Stop() {
	c.once.Do(func() {
		c.stdin.Close()
		if c.signal {
			askGroup(c.cmd.Process)
		}
		impatience := time.AfterFunc(c.grace, func() { killGroup(c.cmd.Process) })
		defer impatience.Stop()
		<-c.ended
	})
	<-c.ended
}

// goneTime is how long killed processes may take to go.
const goneTime = 2 * time.Second

// awaitGone waits until nobody is left in a group who was killed: what they held,
// such as a port, is free then.
func awaitGone(group int) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for until := time.Now().Add(goneTime); anybodyIn(group) && time.Now().Before(until); {
		<-tick.C
	}
}

// Said is the end of what the process has written, in one line.
func (c *Child) Said() string { return c.said.String() }

// lineWriter cuts what is written into lines. One without end is cut where it
// gets too long.
type lineWriter struct {
	each func(line []byte)
	rest []byte
}

const longestLine = 64 << 10

// Write hands the whole lines on.
func (w *lineWriter) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	for {
		line, rest, found := bytes.Cut(w.rest, []byte("\n"))
		if !found && len(w.rest) < longestLine {
			break
		}
		w.each(line)
		if w.rest = rest; !found {
			break
		}
	}
	if len(w.rest) == 0 {
		w.rest = nil
	}
	return len(p), nil
}

// lastWords keeps the end of what a child says.
type lastWords struct {
	mu   sync.Mutex
	text []byte
}

const mostWords = 4096

func (w *lastWords) add(line []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(append(w.text, line...), '\n')
	if extra := len(w.text) - mostWords; extra > 0 {
		w.text = append(w.text[:0], w.text[extra:]...)
	}
}

// String returns it in one line.
func (w *lastWords) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.ReplaceAll(strings.TrimSpace(string(w.text)), "\n", " | ")
}
