// Package demo has the servers that hone's engines are compared with: a goroutine per connection on
// package net, once for each step of the first article.
package demo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
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

// Submit is a request in the form that the article's program uses.
type Submit struct {
	ID      string
	Content []byte
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
		if !wholeFrame(in) && out.Flush() != nil {
			return
		}
	}
}

// wholeFrame reports whether the next request has arrived completely.
func wholeFrame(in *bufio.Reader) bool {
	head, _ := in.Peek(min(4, in.Buffered())) // which cannot fail: they are buffered
	return len(head) == 4 && uint32(in.Buffered()) >= binary.BigEndian.Uint32(head)
}

// Exchange serves one request.
func (s *Step) Exchange(in io.Reader, out io.Writer) error {
	payload, err := readFrame(in)
	if err != nil {
		return err
	}
	s.received.Add(1)
	ack, err := s.reply(payload)
	if err != nil {
		return err
	}
	if err := binary.Write(out, binary.BigEndian, uint32(len(ack)+4)); err != nil {
		return err
	}
	_, err = out.Write(ack)
	return err
}

// longestFrame bounds a frame; the article's server would allocate a gigabyte for the
// four bytes 40 00 00 00.
const longestFrame = 64 << 10

// readFrame makes two reads, with an allocation each.
func readFrame(in io.Reader) ([]byte, error) {
	var total uint32
	if err := binary.Read(in, binary.BigEndian, &total); err != nil {
		return nil, err
	}
	if total < 5 || total > longestFrame {
		return nil, errors.New("a frame of an impossible length")
	}
	payload := make([]byte, total-4)
	_, err := io.ReadFull(in, payload)
	return payload, err
}

func (s *Step) reply(payload []byte) ([]byte, error) {
	request, err := s.Decode(payload)
	if err != nil {
		return nil, err
	}
	if pause, ok := bytes.CutPrefix(request.Content, []byte("sleep ")); ok { // as hone serve --service faults does
		d, _ := time.ParseDuration(string(pause)) // 0 if it is none
		time.Sleep(d)
	}
	id := request.ID
	if s.name == "pooled" {
		s.submit.Put(request) // with all that it refers to, as in the article
	}
	body := bytes.Join([][]byte{[]byte(id), {0}}, nil) // a result of 0
	return bytes.Join([][]byte{{0x82}, body}, nil), nil
}

// Decode is what the article's allocs profile points to.
func (s *Step) Decode(payload []byte) (*Submit, error) {
	if payload[0] != 0x02 || len(payload) < 9 {
		return nil, fmt.Errorf("unknown command %#x", payload[0])
	}
	var request *Submit
	if s.name == "pooled" {
		request = s.submit.Get().(*Submit)
	} else {
		request = new(Submit)
	}
	request.ID, request.Content = string(payload[1:9]), payload[9:]
	return request, nil
}
