package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

const (
	startTime = 10 * time.Second // for a child to be ready
	endTime   = 3 * time.Second  // for one to drain
)

// child is a hone serve in a process of its own. It ends with stop, with its
// context, and when this process dies, because its standard input ends then.
type child struct {
	addr  string
	stats *serverStats

	cmd    *exec.Cmd
	stdin  io.Closer
	output chan struct{} // closed when its standard output has ended
	once   sync.Once
}

// startChild starts this very program and waits until it serves.
func startChild(ctx context.Context, engine, service string) (*child, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{output: make(chan struct{})}
	c.cmd = exec.CommandContext(ctx, exe, "serve", "--json", "--until-eof", "--engine", engine, "--service", service,
		"--addr", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	c.cmd.WaitDelay = endTime
	said := new(lastWords)
	c.cmd.Stderr = said
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	ready, err := c.ready(ctx, stdout)
	if err == nil && ready.Admin != nil {
		c.addr = ready.Addr
		c.stats, err = newServerStats(*ready.Admin)
	}
	if err != nil {
		c.stop()
		return nil, fmt.Errorf("the server in a process of its own: %w; it said: %s", err, said)
	}
	return c, nil
}

// ready waits for the first line.
func (c *child) ready(ctx context.Context, stdout io.Reader) (line readiness, err error) {
	lines := bufio.NewReader(stdout)
	first := make(chan []byte, 1)
	go func() {
		defer close(c.output)
		text, _ := lines.ReadBytes('\n') // no line is no JSON either
		first <- text
		io.Copy(io.Discard, lines)
	}()
	timer := time.NewTimer(startTime)
	defer timer.Stop()
	select {
	case text := <-first:
		if err := json.Unmarshal(text, &line); err != nil {
			return line, fmt.Errorf("no ready line: %w", err)
		}
		return line, nil
	case <-timer.C:
		return line, fmt.Errorf("not ready within %v", startTime)
	case <-ctx.Done():
		return line, ctx.Err()
	}
}

// stop lets the child drain, kills it if it will not, and waits for it.
func (c *child) stop() {
	c.once.Do(func() {
		if c.stats != nil {
			c.stats.close()
		}
		c.stdin.Close()
		impatience := time.AfterFunc(endTime, func() { c.cmd.Process.Kill() })
		defer impatience.Stop()
		<-c.output
		c.cmd.Wait() // how it ended is of no interest: its work was done
	})
}

// lastWords keeps the end of what a child says.
type lastWords struct {
	mu   sync.Mutex
	text []byte
}

const mostWords = 2048

// Write keeps p.
func (w *lastWords) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, p...)
	w.text = w.text[max(0, len(w.text)-mostWords):]
	return len(p), nil
}

// String returns it in one line.
func (w *lastWords) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.ReplaceAll(strings.TrimSpace(string(w.text)), "\n", " | ")
}
