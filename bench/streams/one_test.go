//go:build linux

package streams

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/bench/streams/probe"
)

// TestOneStream has one long stream take no more memory than a short one, and delay others
// little. The client pauses the stream every other window, for comparison.
func TestOneStream(t *testing.T) {
	length, rate, window := size(48*mib, 1024*mib), 20_000_000, size(300*time.Millisecond, 2*time.Second)
	path := program(t, "streams")
	for _, engine := range engines() {
		for _, way := range []struct {
			name string
			do   func(*stream, int) error
		}{{"down", (*stream).download}, {"up", (*stream).upload}} {
			t.Run(way.name+"/"+engine, func(t *testing.T) {
				s := start(t, path, "-addr", "127.0.0.1:0", "-engine", engine)
				others := newPingers(t, s.addr, 100, 200*time.Millisecond)
				c, r := dial(t, s.addr, 256<<10)
				d := &stream{c: c, r: r, pace: pace{ctx: t.Context(), rate: rate, window: window, streaming: &others.streaming}}
				if err := way.do(d, 16*mib); err != nil {
					t.Fatal("the warm-up:", err)
				}
				resident, heap := s.resident(t), s.heap(t, probe.Heap)
				others.forget()
				stop := s.peaks(t)
				began := time.Now()
				if err := way.do(d, length); err != nil {
					t.Error(err)
				}
				took := time.Since(began)
				mostResident, mostHeap := stop()
				others.stop()
				t.Logf("%d MiB in %v, identical; RSS %d KiB and heap %d KiB before, %d and %d at most meanwhile",
					length/mib, took.Round(time.Millisecond), resident>>10, heap>>10, mostResident>>10, mostHeap>>10)
				judge(t, "growth of RSS", float64(mostResident-resident)/mib, "%.2f MiB", "<=", 1)
				judge(t, "growth of heap in use", float64(mostHeap-heap)/mib, "%.2f MiB", "<=", 1)
				with, without := others.p99(true), others.p99(false)
				t.Logf("p99 of %d pings with the stream %v, of %d without %v; median %v and %v", len(others.took[1]), with, len(others.took[0]), without,
					others.quantile(true, 0.5), others.quantile(false, 0.5))
				judge(t, "p99 with the stream to p99 without", float64(with)/float64(without), "%.2f", "<=", 2)
			})
		}
	}
}

// pace keeps a client to its rate, and to its windows: in every other one it does nothing.
type pace struct {
	ctx       context.Context
	rate      int           // bytes per second
	window    time.Duration // 0: no pauses
	streaming *atomic.Int32 // 1 while it streams, 0 in a pause
	began     time.Time
	moved     int
	paused    time.Duration
	windows   int
}

func (p *pace) begin() { p.began, p.moved, p.paused, p.windows = time.Now(), 0, 0, 0 }

// step waits until n more bytes are due.
func (p *pace) step(n int) {
	p.moved += n
	due := p.paused + time.Duration(float64(p.moved)/float64(p.rate)*float64(time.Second))
	if wait := due - time.Since(p.began); wait > 0 {
		fleet.Wait(p.ctx, wait)
	}
	if p.window == 0 {
		return
	}
	if active := time.Since(p.began) - p.paused; active > time.Duration(p.windows+1)*p.window {
		p.streaming.Store(0)
		fleet.Wait(p.ctx, p.window)
		p.streaming.Store(1)
		p.paused += p.window
		p.windows++
	}
}

// stream is a client of examples/streams.
type stream struct {
	c    net.Conn
	r    *bufio.Reader
	pace pace
}

// download reads and compares n bytes.
func (s *stream) download(n int) error {
	s.c.SetDeadline(time.Now().Add(10 * time.Minute))
	if err := exchange(s.c, s.r, fmt.Sprintf("get %d", n), fmt.Sprint(n)); err != nil {
		return err
	}
	s.mark(1)
	defer s.mark(0)
	s.pace.begin()
	got, want := make([]byte, chunk), make([]byte, 0, chunk)
	for at := 0; at < n; at += chunk {
		part := got[:min(chunk, n-at)]
		if _, err := io.ReadFull(s.r, part); err != nil {
			return fmt.Errorf("after %d of %d bytes: %w", at, n, err)
		}
		if want = content(want[:0], at, len(part)); !bytes.Equal(part, want) {
			return fmt.Errorf("other bytes than were to come, from %d on", at)
		}
		s.pace.step(len(part))
	}
	return nil
}

// upload sends n bytes and compares the checksum.
func (s *stream) upload(n int) error {
	s.c.SetDeadline(time.Now().Add(10 * time.Minute))
	if _, err := fmt.Fprintf(s.c, "put %d\n", n); err != nil {
		return err
	}
	s.mark(1)
	defer s.mark(0)
	s.pace.begin()
	var sum uint32
	part := make([]byte, 0, chunk)
	for at := 0; at < n; at += chunk {
		part = content(part[:0], at, min(chunk, n-at))
		sum = crc32.Update(sum, crc32.IEEETable, part)
		if _, err := s.c.Write(part); err != nil {
			return fmt.Errorf("after %d of %d bytes: %w", at, n, err)
		}
		s.pace.step(len(part))
	}
	got, err := s.r.ReadString('\n')
	if want := fmt.Sprintf("%08x\n", sum); err == nil && got != want {
		err = fmt.Errorf("%d bytes have the checksum %q, want %q", n, got, want)
	}
	return err
}

func (s *stream) mark(streaming int32) {
	if s.pace.streaming != nil {
		s.pace.streaming.Store(streaming)
	}
}

// pingers are connections that ask for little, at a fixed rate.
type pingers struct {
	t         *testing.T
	streaming atomic.Int32
	cancel    context.CancelFunc
	pinging   sync.WaitGroup
	mu        sync.Mutex
	took      [2][]time.Duration // without the stream, and with it
}

func newPingers(t *testing.T, addr string, n int, every time.Duration) *pingers {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	p := &pingers{t: t, cancel: cancel}
	t.Cleanup(p.stop)
	for i := range n {
		c, r := dial(t, addr, 0)
		p.pinging.Go(func() {
			fleet.Wait(ctx, every*time.Duration(i)/time.Duration(n))
			ticks := time.NewTicker(every)
			defer ticks.Stop()
			for ctx.Err() == nil {
				select {
				case <-ticks.C:
				case <-ctx.Done():
					return
				}
				with, began := p.streaming.Load(), time.Now()
				if err := ask(c, r, "get 0", "0"); err != nil {
					t.Errorf("a ping: %v", err)
					return
				}
				took := time.Since(began)
				if p.streaming.Load() == with { // else it belongs to neither
					p.mu.Lock()
					p.took[with] = append(p.took[with], took)
					p.mu.Unlock()
				}
			}
		})
	}
	return p
}

// forget forgets what was measured so far.
func (p *pingers) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.took = [2][]time.Duration{}
}

func (p *pingers) stop() { p.cancel(); p.pinging.Wait() }

func (p *pingers) p99(streaming bool) time.Duration { return p.quantile(streaming, 0.99) }

func (p *pingers) quantile(streaming bool, q float64) time.Duration {
	took := p.took[0]
	if streaming {
		took = p.took[1]
	}
	if len(took) == 0 {
		p.t.Fatal("no pings were measured")
	}
	sorted := slices.Sorted(slices.Values(took))
	return sorted[int(float64(len(sorted)-1)*q)]
}
