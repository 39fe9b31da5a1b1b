package framed_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/wire"
)

// newClient dials addr and closes the client at the end of the test.
func newClient(t testing.TB, addr string, o framed.ClientOptions) *framed.Client {
	t.Helper()
	c, err := framed.Dial(t.Context(), addr, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// patient returns a context that bounds what a test waits for.
func patient(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// wantCall calls with content and expects it back.
func wantCall(t *testing.T, c *framed.Client, content string) {
	t.Helper()
	if got, err := c.Call(patient(t), nil, []byte(content)); err != nil || string(got) != content {
		t.Fatalf("Call(%q) returned %q and %v", content, got, err)
	}
}

// wantEnded waits until the connection has ended, with a reason that errors.Is finds.
func wantEnded(t *testing.T, c *framed.Client, why error) {
	t.Helper()
	select {
	case <-c.Done():
	case <-patient(t).Done():
		t.Fatal("the connection did not end")
	}
	wantClosed(t, "Err", c.Err(), why)
	got, err := c.Call(patient(t), []byte("dst"), nil)
	wantClosed(t, "a later call", err, why)
	if string(got) != "dst" {
		t.Errorf("a later call returned %q, want its dst", got)
	}
}

func wantClosed(t *testing.T, what string, err, why error) {
	t.Helper()
	if !errors.Is(err, framed.ErrClosed) || !errors.Is(err, why) {
		t.Errorf("%s: %v, want ErrClosed because of: %v", what, err, why)
	}
	_, refused := why.(wire.Result)
	if errors.As(err, new(wire.Result)) != refused {
		t.Errorf("%s: %v; want a refusal by the server: %t", what, err, refused)
	}
}

// pend starts n calls and returns a channel for their errors, in any order.
func pend(t *testing.T, c *framed.Client, n int, content string) <-chan error {
	errs := make(chan error, n)
	ctx := patient(t)
	for range n {
		go func() {
			_, err := c.Call(ctx, nil, []byte(content))
			errs <- err
		}()
	}
	return errs
}

// wantAllClosed waits for the errors of all pending calls.
func wantAllClosed(t *testing.T, errs <-chan error, why error) {
	t.Helper()
	for range cap(errs) {
		wantClosed(t, "a pending call", receive(t, errs), why)
	}
}

// receive returns one value, with the test's timeout.
func receive[T any](t *testing.T, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-patient(t).Done():
		t.Fatalf("no %T came", v)
	}
	return v
}

// later is a handler that hands its requests to the test, which answers them.
type later chan lateRequest

type lateRequest struct {
	reply   framed.Reply
	content []byte
}

func (l later) Handle(c framed.Call, dst, req []byte) ([]byte, error) {
	l <- lateRequest{c.Later(), bytes.Clone(req)}
	return dst, nil
}

func TestClientManyCallers(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		c := newClient(t, serve(t, &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo)}), framed.ClientOptions{})
		ctx := patient(t)
		var callers sync.WaitGroup
		for caller := range 64 {
			callers.Go(func() {
				var request, reply []byte
				for call := range 200 {
					request = fmt.Appendf(request[:0], "caller %d, call %d, %s", caller, call, strings.Repeat("x", caller*call%97))
					var err error
					reply, err = c.Call(ctx, append(reply[:0], "dst"...), request)
					if err != nil || string(reply) != "dst"+string(request) {
						t.Errorf("%q was answered with %q and %v", request, reply, err)
						return
					}
				}
			})
		}
		callers.Wait()
	})
}

func TestClientRepliesOutOfOrder(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		const calls = 100
		handler := make(later, calls)
		c := newClient(t, serve(t, &framed.Server{Engine: e, Handler: handler}), framed.ClientOptions{})
		ctx := patient(t)
		var callers sync.WaitGroup
		for i := range calls {
			callers.Go(func() {
				request := fmt.Appendf(nil, "call %d", i)
				if got, err := c.Call(ctx, nil, request); err != nil || !bytes.Equal(got, request) {
					t.Errorf("%q was answered with %q and %v", request, got, err)
				}
			})
		}
		var requests []lateRequest
		for range calls {
			requests = append(requests, receive(t, handler))
		}
		for _, r := range slices.Backward(requests) {
			if err := r.reply.Send(r.content); err != nil {
				t.Error(err)
			}
		}
		callers.Wait()
	})
}

func TestClientCancelledCall(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		handler := make(later, 2)
		c := newClient(t, serve(t, &framed.Server{Engine: e, Handler: handler}), framed.ClientOptions{})

		enough := errors.New("enough")
		ctx, cancel := context.WithCancelCause(patient(t))
		dst := make([]byte, 3, 100)
		first := make(chan error, 1)
		go func() {
			got, err := c.Call(ctx, dst, []byte("first"))
			if len(got) != len(dst) || &got[0] != &dst[0] {
				t.Errorf("a cancelled call returned %q, want its dst", got)
			}
			first <- err
		}()
		abandoned := receive(t, handler)
		cancel(enough)
		if err := receive(t, first); err != enough {
			t.Errorf("the cancelled call returned %v, want the context's cause", err)
		}
		if _, err := c.Call(ctx, nil, []byte("never sent")); !errors.Is(err, enough) || !errors.Is(err, framed.ErrNotSent) {
			t.Errorf("a call that was cancelled before returned %v", err)
		}

		second := make(chan string, 1)
		go func() {
			got, err := c.Call(patient(t), nil, []byte("second"))
			second <- fmt.Sprintf("%s, %v", got, err)
		}()
		waited := receive(t, handler)
		abandoned.reply.Send([]byte("too late"))
		waited.reply.Send([]byte("in time"))
		if got := receive(t, second); got != "in time, <nil>" {
			t.Errorf("the call after it was answered with %q", got)
		}
		if err := c.Err(); err != nil {
			t.Errorf("a late answer ended the connection: %v", err)
		}
	})
}

// Replies arrive at about the time when the callers give up, so that both orders occur.
// Each caller overwrites its dst at once: with the race detector this also proves that
// nobody else still writes to it.
func TestClientCancelStorm(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		handler := make(later)
		c := newClient(t, serve(t, &framed.Server{Engine: e, Handler: handler}), framed.ClientOptions{})
		stop := make(chan struct{})
		var answering, callers sync.WaitGroup
		answering.Go(func() {
			for {
				select {
				case r := <-handler:
					r.reply.Send(r.content)
				case <-stop:
					return
				}
			}
		})
		var answered, cancelled atomic.Int64
		for caller := range testrun.Sized(256, 512) {
			callers.Go(func() {
				var dst []byte
				for call := range 20 {
					request := fmt.Appendf(nil, "caller %d, call %d", caller, call)
					ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
					got, err := c.Call(ctx, dst[:0], request)
					cancel()
					switch {
					case err == nil && bytes.Equal(got, request):
						answered.Add(1)
					case errors.Is(err, context.DeadlineExceeded):
						cancelled.Add(1)
					default:
						t.Errorf("%q was answered with %q and %v", request, got, err)
					}
					dst = got
					clear(dst[:cap(dst)])
				}
			})
		}
		callers.Wait()
		t.Logf("%d answered, %d cancelled", answered.Load(), cancelled.Load())
		wantCall(t, c, "after the storm")
		close(stop)
		answering.Wait()
	})
}

func TestClientServerDies(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		const calls = 64
		handler := make(later, calls)
		s := &framed.Server{Engine: e, Handler: handler}
		c := newClient(t, serve(t, s), framed.ClientOptions{})
		errs := pend(t, c, calls, "pending")
		for range calls {
			receive(t, handler)
		}
		s.Close()
		wantAllClosed(t, errs, framed.ErrClosed)
		wantEnded(t, c, framed.ErrClosed)
		if !errors.As(c.Err(), new(*net.OpError)) && !errors.Is(c.Err(), io.EOF) {
			t.Errorf("Err is %v, want the connection's own error too", c.Err())
		}
	})
}

func TestClientRefused(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo), Limits: engine.Limits{Conns: 1}}
		addr := serve(t, s)
		first := newClient(t, addr, framed.ClientOptions{})
		wantCall(t, first, "first")
		second := newClient(t, addr, framed.ClientOptions{})
		_, err := second.Call(patient(t), nil, []byte("second"))
		wantClosed(t, "the call", err, wire.Overloaded)
		wantEnded(t, second, wire.Overloaded)
		wantCall(t, first, "still there")
		_, err = first.Call(patient(t), nil, make([]byte, 64<<10))
		wantClosed(t, "a request over the limit", err, wire.TooLarge)
	})
}

func TestClientServerShutsDown(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		handler := make(later, 1)
		s := &framed.Server{Engine: e, Handler: handler}
		c := newClient(t, serve(t, s), framed.ClientOptions{})
		errs := pend(t, c, 1, "pending")
		asked := receive(t, handler)
		drained := make(chan error, 1)
		go func() { drained <- s.Shutdown(patient(t)) }()
		asked.reply.Send(nil)
		if err := receive(t, errs); err != nil {
			t.Errorf("what was asked before the shutdown returned %v", err)
		}
		wantEnded(t, c, wire.ShuttingDown)
		if err := receive(t, drained); err != nil {
			t.Errorf("Shutdown returned %v", err)
		}
	})
}

func TestClientResults(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(func(_ framed.Call, dst, req []byte) ([]byte, error) {
			switch string(req) {
			case "fail":
				return dst, io.ErrNoProgress
			case "forbid":
				return dst, fmt.Errorf("who asks? %w", wire.Unauthorised)
			case "new code":
				return dst, wire.Result(200)
			case "panic":
				panic("as asked")
			}
			return append(dst, req...), nil
		})}
		c := newClient(t, serve(t, s), framed.ClientOptions{})
		for request, want := range map[string]error{
			"": nil, "fine": nil, "fail": wire.Failed, "forbid": wire.Unauthorised, "new code": wire.Result(200),
		} {
			if _, err := c.Call(patient(t), nil, []byte(request)); err != want {
				t.Errorf("%q was answered with %v, want %v", request, err, want)
			}
		}
		if _, err := c.Call(patient(t), nil, []byte("panic")); err != wire.Internal {
			t.Errorf("the request that panicked was answered with %v, want %v", err, wire.Internal)
		}
		wantEnded(t, c, framed.ErrClosed)
	})
}

func TestClientConnect(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{
			Engine: e,
			Connect: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
				if len(req) == 0 {
					return dst, wire.Unauthorised
				}
				c.Conn().SetValue(string(req))
				return append(append(dst, "welcome, "...), req...), nil
			}),
			Handler: framed.HandlerFunc(func(c framed.Call, dst, _ []byte) ([]byte, error) {
				return append(dst, c.Conn().Value().(string)...), nil
			}),
		}
		c := newClient(t, serve(t, s), framed.ClientOptions{})
		if _, err := c.Connect(patient(t), nil, nil); err != wire.Unauthorised {
			t.Errorf("Connect without credentials returned %v", err)
		}
		if got, err := c.Connect(patient(t), nil, []byte("ann")); err != nil || string(got) != "welcome, ann" {
			t.Errorf("Connect returned %q and %v", got, err)
		}
		if got, err := c.Call(patient(t), nil, nil); err != nil || string(got) != "ann" {
			t.Errorf("Call returned %q and %v", got, err)
		}
	})
}

func TestClientPushes(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		const pushes = 5000
		var ids []uint64
		complete := make(chan struct{})
		o := framed.ClientOptions{OnDeliver: func(id uint64, content []byte) {
			if want := fmt.Sprint("push ", id); string(content) != want {
				t.Errorf("push %d brought %q, want %q", id, content, want)
			}
			if ids = append(ids, id); len(ids) == pushes {
				close(complete)
			}
		}}
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(func(c framed.Call, dst, _ []byte) ([]byte, error) {
			for id := range uint64(pushes) {
				if err := c.Conn().Push(id, fmt.Append(nil, "push ", id)); err != nil {
					return dst, err
				}
			}
			return dst, nil
		})}
		addr := serve(t, s)
		c := newClient(t, addr, o)
		wantCall(t, c, "")
		receive(t, complete)
		if !slices.IsSorted(ids) || slices.Compact(ids)[0] != 0 || len(slices.Compact(ids)) != pushes {
			t.Errorf("pushes were delivered in the order %v", ids)
		}
		wantCall(t, newClient(t, addr, framed.ClientOptions{}), "") // dropped without OnDeliver
	})
}

func TestClientCloseWhileCallsArePending(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		const calls = 64
		handler := make(later, calls)
		s := &framed.Server{Engine: e, Handler: handler}
		c := newClient(t, serve(t, s), framed.ClientOptions{})
		errs := pend(t, c, calls, "pending")
		for range calls {
			receive(t, handler)
		}
		var closers sync.WaitGroup
		for range 4 {
			closers.Go(func() {
				if err := c.Close(); err != nil {
					t.Errorf("Close returned %v", err)
				}
			})
		}
		closers.Wait()
		wantAllClosed(t, errs, framed.ErrClosed)
		wantEnded(t, c, framed.ErrClosed)
		if err := c.Err(); err != framed.ErrClosed {
			t.Errorf("after Close, Err is %v, want ErrClosed itself", err)
		}
	})
}

// Calls, cancellations and the end of the connection race.
func TestClientCloseAmongCalls(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		addr := serve(t, &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo)})
		ctx := patient(t)
		for range 20 {
			c := newClient(t, addr, framed.ClientOptions{})
			errs := make(chan error, 8)
			for range cap(errs) {
				go func() {
					var err error
					for err == nil {
						_, err = c.Call(ctx, nil, []byte("again"))
					}
					errs <- err
				}()
			}
			wantCall(t, c, "in the middle of it")
			c.Close()
			wantAllClosed(t, errs, framed.ErrClosed)
		}
	})
}

func TestClientUnix(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		path := filepath.Join(t.TempDir(), "s")
		ln, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo)}
		serveOn(t, s, ln)
		wantCall(t, newClient(t, "unix:"+path, framed.ClientOptions{}), "through a file")
	})
}

func TestClientTLS(t *testing.T) {
	runPlain(t, func(t *testing.T, e engine.Engine) {
		certified := httptest.NewTLSServer(nil) // for its certificate
		defer certified.Close()
		ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: certified.TLS.Certificates})
		if err != nil {
			t.Fatal(err)
		}
		addr := serveOn(t, &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo)}, ln)
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		c := framed.NewClient(tls.Client(nc, &tls.Config{InsecureSkipVerify: true}), framed.ClientOptions{})
		t.Cleanup(func() { c.Close() })
		wantCall(t, c, "in private")
	})
}

func TestClientDialFails(t *testing.T) {
	t.Cleanup(countLeaks(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := framed.Dial(ctx, "127.0.0.1:1", framed.ClientOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("with a dead context, Dial returned %v", err)
	}
	if _, err := framed.Dial(t.Context(), "unix:"+filepath.Join(t.TempDir(), "nobody"), framed.ClientOptions{}); !errors.As(err, new(*net.OpError)) {
		t.Errorf("without a server, Dial returned %v", err)
	}
}

// rogue is a server that accepts one connection, reads one request, writes answer, closes
// gracefully and drains the rest.
func rogue(t *testing.T, answer ...[]byte) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var rogues sync.WaitGroup
	t.Cleanup(rogues.Wait)
	t.Cleanup(func() { ln.Close() })
	rogues.Go(func() {
		nc, err := ln.Accept()
		if err != nil {
			return
		}
		defer nc.Close()
		nc.SetDeadline(time.Now().Add(patience))
		nc.Read(make([]byte, 1024))
		for _, b := range answer {
			nc.Write(b)
		}
		nc.(*net.TCPConn).CloseWrite()
		io.Copy(io.Discard, nc)
	})
	return ln.Addr().String()
}

// packet encodes one frame of a rogue.
func packet(c wire.Command, id uint64, r wire.Result, content string) []byte {
	return wire.Append(nil, wire.Packet{Command: c, ID: id, Result: r, Content: []byte(content)})
}

func TestClientRogueServers(t *testing.T) {
	for _, test := range []struct {
		name   string
		answer []byte
		why    error
	}{
		{"says nothing", nil, io.EOF},
		{"half a length", []byte{0, 0}, io.ErrUnexpectedEOF},
		{"half a frame", ack(1, "content")[:10], io.ErrUnexpectedEOF},
		{"a gigabyte", []byte{0x40, 0, 0, 0}, engine.TooLarge},
		{"a byte over the limit", []byte{1, 0, 0, 1}, engine.TooLarge},
		{"under the shortest frame", []byte{0, 0, 0, 3}, engine.Malformed},
		{"an ack without a result", []byte{0, 0, 0, 13, 0x82, 0, 0, 0, 0, 0, 0, 0, 1}, engine.Malformed},
		{"another protocol", []byte("HTTP/1.1 400 Bad Request\r\n\r\n"), engine.TooLarge},
		{"garbage", bytes.Repeat([]byte{0, 0, 0, 32, 0x7f}, 100), engine.UnknownCommand},
		{"a request", submit(1, "do it yourself"), engine.UnknownCommand},
		{"an id never issued", ack(2, ""), engine.Malformed},
		{"an id from far away", ack(1<<63, ""), engine.Malformed},
		{"id 0", ack(0, ""), engine.Malformed},
		{"id 0, refused", packet(wire.SubmitAck, 0, wire.Failed, ""), engine.Malformed},
		{"no refusal", packet(wire.ConnAck, 0, wire.OK, ""), engine.Malformed},
		{"the wrong kind of ack", packet(wire.ConnAck, 1, wire.OK, ""), engine.Malformed},
		{"a refusal", packet(wire.ConnAck, 0, wire.TooSlow, "sorry"), wire.TooSlow},
		{"a refusal from the future", packet(wire.ConnAck, 0, 77, ""), wire.Result(77)},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Cleanup(countLeaks(t))
			c := newClient(t, rogue(t, test.answer), framed.ClientOptions{})
			got, err := c.Call(patient(t), []byte("dst"), []byte("request"))
			wantClosed(t, "the call", err, test.why)
			if string(got) != "dst" {
				t.Errorf("the call returned %q, want its dst", got)
			}
			wantEnded(t, c, test.why)
		})
	}
}

func TestClientMemoryFollowsWhatCame(t *testing.T) {
	t.Cleanup(countLeaks(t))
	claim := []byte{1, 0, 0, 0} // 16 MiB, which is allowed
	c := newClient(t, rogue(t, claim, make([]byte, 100_000)), framed.ClientOptions{})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := c.Call(patient(t), nil, nil)
	runtime.ReadMemStats(&after)
	wantClosed(t, "the call", err, io.ErrUnexpectedEOF)
	if n := after.TotalAlloc - before.TotalAlloc; n > 2<<20 {
		t.Errorf("%d bytes were allocated for 100 000 received", n)
	}
}

func TestClientFrameSize(t *testing.T) {
	t.Cleanup(countLeaks(t))
	const limit = 100
	fits := strings.Repeat("x", limit-len(ack(1, "")))
	c := newClient(t, rogue(t, packet(wire.SubmitAck, 1, wire.Failed, fits)), framed.ClientOptions{FrameSize: limit})
	if got, err := c.Call(patient(t), nil, nil); err != wire.Failed || string(got) != fits {
		t.Errorf("the largest content of a failure arrived as %q and %v", got, err)
	}
	c = newClient(t, rogue(t, ack(1, fits+"x")), framed.ClientOptions{FrameSize: limit})
	_, err := c.Call(patient(t), nil, nil)
	wantClosed(t, "a larger reply", err, engine.TooLarge)
}

// script is the server's side of an in-memory connection, inside a bubble.
type script struct {
	*peer
	c *framed.Client
}

func bubble(t *testing.T, o framed.ClientOptions, test func(t *testing.T, s script)) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		c := framed.NewClient(near, o)
		defer c.Close()
		test(t, script{&peer{far, t, bufio.NewReader(far)}, c})
	})
}

func TestClientServerNeverAnswers(t *testing.T) {
	bubble(t, framed.ClientOptions{}, func(t *testing.T, s script) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var callers sync.WaitGroup
		start := time.Now()
		for range 10 {
			callers.Go(func() {
				if _, err := s.c.Call(ctx, nil, nil); err != context.DeadlineExceeded {
					t.Errorf("Call returned %v", err)
				}
			})
		}
		for range 10 {
			s.packet()
		}
		callers.Wait()
		if waited := time.Since(start); waited != time.Hour {
			t.Errorf("the calls waited for %v, want 1h", waited)
		}
		for id := range uint64(10) {
			s.send(ack(id+1, "an hour late"))
		}
		go func() {
			id := s.packet().ID
			s.send(ack(id, "at last"))
			s.send(ack(id, "and twice"))
		}()
		if got, err := s.c.Call(t.Context(), nil, nil); err != nil || string(got) != "at last" {
			t.Errorf("the next call returned %q and %v", got, err)
		}
		synctest.Wait()
		if err := s.c.Err(); err != nil {
			t.Errorf("unexpected replies ended the connection: %v", err)
		}
	})
}

// While more than 256 KiB are queued for writing callers wait too, and a caller that
// gives up then has sent nothing.
func TestClientServerDoesNotRead(t *testing.T) {
	bubble(t, framed.ClientOptions{}, func(t *testing.T, s script) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		ends := make(chan error, 3)
		for size := range 3 {
			go func() {
				_, err := s.c.Call(ctx, nil, make([]byte, 150<<10+size))
				ends <- err
			}()
			synctest.Wait()
		}
		unsent := 0
		for range 3 {
			err := <-ends
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Call returned %v", err)
			}
			if errors.Is(err, framed.ErrNotSent) {
				unsent++
			}
		}
		if unsent != 1 {
			t.Errorf("%d calls returned ErrNotSent, want only the one that waited for room", unsent)
		}
		errs := pend(t, s.c, 5, "")
		synctest.Wait()
		for id := range uint64(2) {
			if p := s.packet(); p.ID != id+1 || len(p.Content) != 150<<10+int(id) {
				t.Errorf("packet %d has %d bytes; only the first two had room", p.ID, len(p.Content))
			}
		}
		for range cap(errs) {
			s.send(ack(s.packet().ID, ""))
			if err := <-errs; err != nil {
				t.Errorf("a call that waited for room returned %v", err)
			}
		}
	})
}

func TestClientCloseWhileCallersWaitForRoom(t *testing.T) {
	bubble(t, framed.ClientOptions{}, func(t *testing.T, s script) {
		errs := pend(t, s.c, 100, strings.Repeat("x", 10<<10))
		synctest.Wait()
		start := time.Now()
		s.c.Close()
		wantAllClosed(t, errs, framed.ErrClosed)
		if waited := time.Since(start); waited > 0 {
			t.Errorf("they waited for another %v", waited)
		}
	})
}

// mute is a connection whose writes fail.
type mute struct{ net.Conn }

func (mute) Write([]byte) (int, error) { return 0, io.ErrNoProgress }

func TestClientHearsTheServerOutAfterAFailedWrite(t *testing.T) {
	for name, test := range map[string]struct {
		say  []byte
		why  error
		took time.Duration
	}{
		"a refusal": {packet(wire.ConnAck, 0, wire.Idle, ""), wire.Idle, 0},
		"silence":   {nil, io.ErrNoProgress, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				defer far.Close()
				c := framed.NewClient(mute{near}, framed.ClientOptions{})
				defer c.Close()
				start := time.Now()
				errs := pend(t, c, 3, "pending")
				synctest.Wait()
				far.Write(test.say)
				wantAllClosed(t, errs, test.why)
				if took := time.Since(start); took != test.took {
					t.Errorf("it took %v, want %v", took, test.took)
				}
				wantEnded(t, c, test.why)
			})
		})
	}
}

func TestClientCloseWaitsForOnDeliver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		finish := make(chan struct{})
		c := framed.NewClient(near, framed.ClientOptions{OnDeliver: func(uint64, []byte) { <-finish }})
		far.Write(packet(wire.Deliver, 1, 0, ""))
		closed := make(chan error, 1)
		go func() { closed <- c.Close() }()
		<-c.Done()
		synctest.Wait()
		if len(closed) > 0 {
			t.Error("Close returned before OnDeliver")
		}
		close(finish)
		<-closed
	})
}

func TestClientOnDeliverThatEndsItsGoroutine(t *testing.T) {
	bubble(t, framed.ClientOptions{OnDeliver: func(uint64, []byte) { runtime.Goexit() }}, func(t *testing.T, s script) {
		errs := pend(t, s.c, 3, "pending")
		s.send(packet(wire.Deliver, 1, 0, ""))
		wantAllClosed(t, errs, framed.ErrClosed)
	})
}

// However the stream is split, replies arrive complete and at their callers.
func TestClientReadsAnySplit(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	bubble(t, framed.ClientOptions{}, func(t *testing.T, s script) {
		replies := make([][]byte, 250)
		var callers sync.WaitGroup
		for i := range replies {
			size := [...]int{0, 1, 60, 5000, 40_000, 600_000}[random.IntN(6)]
			replies[i] = bytes.Repeat([]byte{byte(i)}, size)
			callers.Go(func() {
				got, err := s.c.Call(t.Context(), []byte("dst"), fmt.Append(nil, i))
				if err != nil || !bytes.Equal(got, append([]byte("dst"), replies[i]...)) {
					t.Errorf("reply %d has %d bytes and %v, want %d", i, len(got), err, size)
				}
			})
		}
		var stream []byte
		for range replies {
			p := s.packet()
			i, _ := strconv.Atoi(string(p.Content))
			stream = append(stream, ack(p.ID, string(replies[i]))...)
		}
		for len(stream) > 0 {
			n := min(len(stream), 1+random.IntN(1<<random.IntN(18)))
			s.send(stream[:n])
			stream = stream[n:]
		}
		callers.Wait()
	})
}

func TestClientAllocations(t *testing.T) {
	inTurn(t, func(t *testing.T, e engine.Engine) {
		c := newClient(t, serve(t, &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo)}), framed.ClientOptions{})
		request, reply := make([]byte, 100), []byte(nil)
		n := testing.AllocsPerRun(1000, func() {
			var err error
			if reply, err = c.Call(t.Context(), reply[:0], request); err != nil {
				t.Error(err)
			}
		})
		if n > 1 {
			t.Errorf("%v allocations for a call, server and all; want at most 1", n)
		}
	})
}

// BenchmarkClient has one connection and a server in the same process, on the default
// engine.
func BenchmarkClient(b *testing.B) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	s := &framed.Server{Handler: framed.HandlerFunc(echo)}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	b.Cleanup(func() {
		s.Close()
		<-served
	})
	for _, callers := range []int{1, 8, 64, 512} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			c := newClient(b, ln.Addr().String(), framed.ClientOptions{})
			var left atomic.Int64
			left.Store(int64(b.N))
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			b.ReportAllocs()
			b.ResetTimer()
			var calling sync.WaitGroup
			for range callers {
				calling.Go(func() {
					request, reply := make([]byte, 100), make([]byte, 0, 100)
					for left.Add(-1) >= 0 {
						if _, err := c.Call(ctx, reply, request); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			calling.Wait()
		})
	}
}
