package load

import (
	"cmp"
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/tool/load/codec"
	"github.com/hone-go/hone/wire"
)

// patience bounds every wait of these tests.
const patience = 60 * time.Second

// must fails the test if the call has failed.
func must[T any](tb testing.TB) func(T, error) T {
	return func(v T, err error) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return v
	}
}

// rated returns the rate, also of a generator that other programs kept from running.
func rated(r *Result) *float64 { return cmp.Or(r.Rate, r.RateAtLeast) }

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// outcome is what Run returned, and when.
type outcome struct {
	result *Result
	err    error
	took   time.Duration
}

// besides is how many tests run in parallel at present.
var besides atomic.Int64

// sideBySide runs a test that waits, or that a busy machine cannot disturb, in parallel with
// others, after all tests that measure. TestMain counts once what such tests leave behind.
func sideBySide(t *testing.T) {
	t.Helper()
	t.Parallel()
	besides.Add(1)
	t.Cleanup(func() { besides.Add(-1) })
}

// runPlan runs the plan, and fails the test if Run hangs or, in a sequential test, leaves something
// behind.
func runPlan(tb testing.TB, ctx context.Context, p Plan) outcome {
	tb.Helper()
	goroutines, descriptors := runtime.NumGoroutine(), openDescriptors()
	ended := make(chan outcome, 1)
	go func() {
		begun := time.Now()
		r, err := Run(ctx, p)
		ended <- outcome{r, err, time.Since(begun)}
	}()
	select {
	case o := <-ended:
		if besides.Load() > 0 {
			return o // the others have goroutines and descriptors, too
		}
		// A hand-written server's connections end with its clients.
		eventually(tb, "goroutines are left", func() bool { return runtime.NumGoroutine() <= goroutines })
		eventually(tb, "descriptors are left", func() bool { return openDescriptors() <= descriptors })
		return o
	case <-time.After(patience):
		stacks := make([]byte, 1<<20)
		tb.Fatalf("Run hangs:\n%s", stacks[:runtime.Stack(stacks, true)])
		return outcome{}
	}
}

// measured runs a plan that must not fail. Without a time-out of its own, it has one that no busy
// machine exceeds.
func measured(tb testing.TB, p Plan) *Result {
	tb.Helper()
	if p.Timeout == 0 {
		p.Timeout = patience / 2
	}
	o := runPlan(tb, context.Background(), p)
	if o.err != nil {
		tb.Fatal(o.err)
	}
	return o.result
}

// openDescriptors returns the number of open descriptors; 0 if unknown. It does not count those of
// epoll, because a server in this process has more or fewer as its loops go to sleep. A leaked
// poller of ours still shows, by its alarm.
func openDescriptors() (n int) {
	const dir = "/proc/self/fd/"
	all, _ := os.ReadDir(dir)
	for _, fd := range all {
		if to, err := os.Readlink(dir + fd.Name()); err == nil && to != "anon_inode:[eventpoll]" {
			n++
		}
	}
	return n
}

// eventually waits until holds.
func eventually(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(patience); !holds(); <-again.C {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			tb.Fatalf("%s:\n%s", what, stacks[:runtime.Stack(stacks, true)])
		}
	}
}

// longer runs a test with longer and longer times until nothing is wrong: a busy machine exceeds any
// fixed time.
func longer(tb testing.TB, from time.Duration, wrong func(time.Duration) string) {
	tb.Helper()
	for d := from; ; d *= 4 {
		why := wrong(d)
		switch {
		case why == "":
			return
		case d > patience/8:
			tb.Fatalf("with %v: %s", d, why)
		}
		tb.Logf("with %v, to be repeated with longer: %s", d, why)
	}
}

// serveWith listens on the network and passes every connection to serve, which owns it. Everything
// ends with the test.
func serveWith(tb testing.TB, network string, serve func(net.Conn)) codec.Frames {
	tb.Helper()
	address := "127.0.0.1:0"
	if network == "unix" {
		dir := must[string](tb)(os.MkdirTemp("", "load")) // shorter than TempDir: such paths have a limit
		tb.Cleanup(func() { os.RemoveAll(dir) })
		address = dir + "/s"
	}
	ln := must[net.Listener](tb)(net.Listen(network, address))
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer nc.Close()
				serve(nc)
			})
		}
	})
	tb.Cleanup(func() {
		ln.Close()
		serving.Wait()
	})
	return codec.Frames{Network: network, Address: ln.Addr().String()}
}

// answering makes a server that appends the answer to a request with answer. before, if not nil,
// is called when requests have been read and not answered.
func answering(before func(), answer func(dst []byte, p wire.Packet) []byte) func(net.Conn) {
	return func(nc net.Conn) {
		in, out, held := make([]byte, 256<<10), []byte(nil), 0
		for {
			n, err := nc.Read(in[held:])
			if err != nil {
				return
			}
			held += n
			if before != nil {
				before()
			}
			out = out[:0]
			rest := in[:held]
			for len(rest) > 0 {
				payload, need, err := wire.Frame(rest, len(in))
				if err != nil {
					return
				}
				if need > 0 {
					break
				}
				p, err := wire.Parse(payload)
				if err != nil {
					return
				}
				out = answer(out, p)
				rest = rest[wire.HeaderSize+len(payload):]
			}
			held = copy(in, rest)
			if _, err := nc.Write(out); err != nil {
				return
			}
		}
	}
}

// ack returns the answer of a successful request.
func ack(p wire.Packet) wire.Packet {
	return wire.Packet{Command: wire.SubmitAck, ID: p.ID, Content: p.Content}
}

// echo answers with the request's content.
func echo(dst []byte, p wire.Packet) []byte { return wire.Append(dst, ack(p)) }

// echoServer is a correct server.
func echoServer(tb testing.TB, network string) codec.Frames {
	return serveWith(tb, network, answering(nil, echo))
}

// faultOf returns err as the *Error that Run promises.
func faultOf(tb testing.TB, err error) *Error {
	tb.Helper()
	var e *Error
	if !errors.As(err, &e) {
		tb.Fatalf("error %v, want an *Error", err)
	}
	return e
}
