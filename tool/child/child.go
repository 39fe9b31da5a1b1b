// Package child runs other programs and never leaves one running.
//
// A child leads its own process group, so that everything it starts ends with it and
// their resource use is added up. It ends by Stop, with its context and, with its whole
// group, when this process dies for any reason: on Unix a guard shell waits for that. On
// other systems the child has to watch its standard input.
package child

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// Child is a running program. Answer and Ask may be called from one goroutine at a time,
// everything else from any.
type Child struct {
	// PID is also the id of its process group.
	PID int

	signal bool
	grace  time.Duration
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  chan []byte
	ended  chan struct{} // closed when the process has been waited for
	how    error         // exit status: read it after ended is closed
	said   lastWords
	once   sync.Once
}

// Options are how a child is run. The zero value works.
type Options struct {
	// Signal sends the group SIGTERM, in addition to closing its standard input. Windows
	// has no such signal.
	Signal bool
	// Grace is how long the child may take to end before it is killed. Zero: 3 s.
	Grace time.Duration
	// Start starts the command in another way. Zero: cmd.Start.
	Start func(*exec.Cmd) error
	// Said receives every line that the child writes to either stream, from two
	// goroutines. It must return soon and not retain the line. Zero: none.
	Said func(line []byte)
}

// Start starts a command made by exec.CommandContext, whose streams must be unset. It
// reads the child's output to its end in any case, so that the child never blocks on it.
func Start(cmd *exec.Cmd, o Options) (*Child, error) {
	c := &Child{cmd: cmd, signal: o.Signal, grace: o.Grace, lines: make(chan []byte, 1), ended: make(chan struct{})}
	c.grace = cmp.Or(c.grace, 3*time.Second)
	var err error
	if c.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	cmd.Stdout = &lineWriter{each: func(line []byte) { c.heard(line, o.Said); c.answer(line) }}
	cmd.Stderr = &lineWriter{each: func(line []byte) { c.heard(line, o.Said) }}
	cmd.WaitDelay = c.grace // for its children that hold its streams
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
		killGroup(cmd.Process) // in case it left children running
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

// answer stores a line for Answer.
func (c *Child) answer(line []byte) {
	select {
	case c.lines <- bytes.Clone(line):
	default: // nobody waits: drop it
	}
}

// Answer waits for a line of JSON on the child's standard output. At most one line
// written earlier is kept.
func (c *Child) Answer(ctx context.Context, limit time.Duration, answer any) error {
	select {
	case line, ok := <-c.lines:
		if !ok {
			return fmt.Errorf("process %d has ended; its output: %s", c.PID, c.Said())
		}
		return json.Unmarshal(line, answer)
	case <-time.After(limit):
		return fmt.Errorf("process %d did not answer within %v; its output: %s", c.PID, limit, c.Said())
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Ask writes a line to the child's standard input and waits for the answer.
func (c *Child) Ask(ctx context.Context, line string, limit time.Duration, answer any) error {
	if _, err := io.WriteString(c.stdin, line+"\n"); err != nil {
		return fmt.Errorf("process %d accepts no orders (%w); its output: %s", c.PID, err, c.Said())
	}
	return c.Answer(ctx, limit, answer)
}

// Ended is closed once the process has ended.
func (c *Child) Ended() <-chan struct{} { return c.ended }

// How returns how the process ended: nil for exit code 0. It waits for the end.
func (c *Child) How() error {
	<-c.ended
	return c.how
}

// Stop ends the process and its group, kills them after Grace, and waits.
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

// Kill kills the process and its group, and does not wait. Stop is still needed.
func (c *Child) Kill() { killGroup(c.cmd.Process) }

// Terminate sends SIGTERM to the group, but not to a shell that runs the others: it would end before
// them, and the group with it. It does not wait, and Stop is still needed. Windows has no SIGTERM.
func (c *Child) Terminate() {
	if u, err := c.Used(); err == nil && u.Program() != "" && len(u.PIDs) > 1 && !sameProgram(c.PID, u.Busiest) {
		for _, pid := range u.PIDs {
			if pid != c.PID {
				terminate(pid)
			}
		}
		return
	}
	askGroup(c.cmd.Process)
}

// goneTime bounds how long killed processes may take to disappear.
const goneTime = 2 * time.Second

// awaitGone waits until a killed group has disappeared: only then are its resources, such
// as a port, free.
func awaitGone(group int) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for until := time.Now().Add(goneTime); anybodyIn(group) && time.Now().Before(until); {
		<-tick.C
	}
}

// Said returns the end of what the process has written, in one line.
func (c *Child) Said() string { return c.said.String() }

// lineWriter splits what is written into lines, and splits overlong lines.
type lineWriter struct {
	each func(line []byte)
	rest []byte
}

const longestLine = 64 << 10

// Write passes complete lines on.
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

// lastWords keeps the end of a child's output.
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

// String returns it as one line.
func (w *lastWords) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.ReplaceAll(strings.TrimSpace(string(w.text)), "\n", " | ")
}
