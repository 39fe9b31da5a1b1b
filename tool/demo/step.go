// Package demo has the servers that hone's engines are compared with: a goroutine per connection on
// package net, once for each step of the first article.
package demo

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hone-go/hone/engine"
)

// Names returns the steps, first to last: direct I/O, 4 KiB buffers, and a sync.Pool in addition.
func Names() []string { return []string{"direct", "buffered", "pooled"} }

// Step is the article's server at one step: a codec that allocates everywhere, and counters. It has no
// limits and no timeouts.
type Step struct {
	// Close stops listening and closes all connections.
	Close context.CancelFunc

	name   string
	open   context.Context // until Close
	submit sync.Pool

	conns    atomic.Int64
	accepted atomic.Uint64
	received atomic.Uint64
}

// NewStep returns the server of the step with that name.
func NewStep(name string) (*Step, error) {
	if !slices.Contains(Names(), name) {
		return nil, fmt.Errorf("demo: no server %q; use one of %s", name, strings.Join(Names(), ", "))
	}
	s := &Step{name: name, submit: sync.Pool{New: func() any { return new(Submit) }}}
	s.open, s.Close = context.WithCancel(context.Background())
	return s, nil
}

// Serve serves each connection on a goroutine of its own. After Close it returns once these have ended.
func (s *Step) Serve(ln net.Listener) error {
	defer context.AfterFunc(s.open, func() { ln.Close() })()
	var conns sync.WaitGroup
	defer conns.Wait()
	for {
		conn, err := ln.Accept()
		if err != nil {
			return err
		}
		s.accepted.Add(1)
		conns.Go(func() { s.handle(conn) })
	}
}

// Stats returns what the server has counted.
func (s *Step) Stats() engine.Stats {
	return engine.Stats{Engine: s.name, Open: int(s.conns.Load()), Accepted: s.accepted.Load(), Requests: s.received.Load()}
}

func (s *Step) handle(conn net.Conn) {
	s.conns.Add(1)
	defer s.conns.Add(-1)
	defer conn.Close()
	defer context.AfterFunc(s.open, func() { conn.Close() })()
	if s.name == "direct" {
		for s.Exchange(conn, conn) == nil {
		}
		return
	}
	in, out := bufio.NewReader(conn), bufio.NewWriter(conn) // 4 KiB each
	for s.Exchange(in, out) == nil {
		// The article flushes only when its 4 KiB are full, so a client that waits for
		// its answer waits for ever.
		if !WholeFrame(in) && out.Flush() != nil {
			return
		}
	}
}

// Exchange serves one request.
func (s *Step) Exchange(in io.Reader, out io.Writer) error {
	payload, err := ReadFrame(in)
	if err != nil {
		return err
	}
	s.received.Add(1)
	fresh := NewSubmit
	if s.name == "pooled" {
		fresh = func() *Submit { return s.submit.Get().(*Submit) }
	}
	request, err := Decode(payload, fresh)
	if err != nil {
		return err
	}
	if pause, ok := bytes.CutPrefix(request.Content, []byte("sleep ")); ok { // as hone serve --service faults does
		d, _ := time.ParseDuration(string(pause)) // 0 if it is none
		time.Sleep(d)
	}
	id := request.ID
	if s.name == "pooled" {
		s.submit.Put(request) // with all that it refers to, as in the article
	}
	return WriteFrame(out, Ack(id))
}
