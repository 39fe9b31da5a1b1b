package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hone-go/hone/wire"
)

// TestHelloThatWaits has a hello wait a minute for the log, and longer than a client may take for it. Nobody has taken
// its session, so the answer is not that somebody has.
func TestHelloThatWaits(t *testing.T) {
	t.Parallel() // it waits more than it works
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprint("shared ", shared), func(t *testing.T) {
			log := newGate()
			s := &Server{Log: log, Shared: shared}
			s.Limits.AuthTime = time.Second
			up := serve(t, s)
			other, late := up.peer(t), up.peer(t)
			other.hello(first("other"))
			log.set(true, nil)
			other.submit(1, "x")
			<-log.tried
			late.send(wire.Packet{Command: wire.Conn, ID: 1, Content: first("late").append(nil)})
			waitFor(t, "the hello", func() bool { return up.waiting() == 1 })
			up.queue.mu.Lock()
			up.queue.waiting[0].requests[0].came = time.Now().Add(-time.Minute)
			up.queue.mu.Unlock()
			for range 2 { // which say nothing, and come later
				up.peer(t).must(wire.ConnAck, 0, wire.TooSlow)
			}
			log.set(false, nil)
			if !shared { // its order among the hellos of its client is known
				late.welcome()
				late.stored(1, "y")
				return
			}
			if said := late.must(wire.ConnAck, 1, wire.TooSlow).Content; !strings.HasPrefix(string(said), "gateway: too slow; try again: the hello has waited 1m") {
				t.Errorf("%s", said)
			}
			late.closed()
		})
	}
}

// answers are what the connections of a client get, one after the other, instead of a gateway's: these bytes, and then
// nothing. After the last one they lead to a gateway.
type answers struct {
	addr string
	mu   sync.Mutex
	all  []string
}

func (a *answers) dial(ctx context.Context, _ string) (net.Conn, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.all) == 0 {
		return dial(ctx, a.addr)
	}
	say := a.all[0]
	a.all = a.all[1:]
	near, far := net.Pipe()
	go func() {
		defer far.Close()
		if _, err := readOne(far); err == nil {
			io.WriteString(far, say)
		}
	}()
	return near, nil
}

// then adds an answer and cuts the connection of a client that has one.
func (a *answers) then(d *dialer, say string) {
	a.mu.Lock()
	a.all = append(a.all, say)
	a.mu.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conn.nc.Close()
}

// moved is the answer to a hello that another connection has the session.
var moved = string(wire.Append(nil, wire.Packet{Command: wire.ConnAck, ID: helloID, Result: resultMoved}))

// TestMovedWithoutAWelcome: being refused says nothing of another program; only losing a session that it had makes a
// client end for good.
func TestMovedWithoutAWelcome(t *testing.T) {
	up := serve(t, &Server{Log: newGate()})
	to := &answers{addr: up.addr, all: slices.Repeat([]string{moved}, 2*maxMoves)}
	c := &Client{Addrs: slices.Repeat([]string{"any"}, 2*maxMoves), ID: "a", Dial: to.dial} // without a pause between two
	defer c.end(ErrClosed)
	if _, err := c.Open(soon(t)); err != nil {
		t.Error(err)
	}
	t.Run("Python", func(t *testing.T) {
		t.Parallel() // it waits
		refusals := &answers{addr: up.addr, all: slices.Repeat([]string{moved}, 7)}
		ln := listen(t)
		var passing sync.WaitGroup
		defer passing.Wait()
		defer ln.Close()
		passing.Go(func() {
			for {
				near, err := ln.Accept()
				if err != nil {
					return
				}
				far, err := refusals.dial(t.Context(), "")
				if err != nil {
					t.Error(err)
				}
				passing.Go(func() { io.Copy(far, near); far.Close() })
				passing.Go(func() { io.Copy(near, far); near.Close() })
			}
		})
		if _, said, err := honed(t, "1\n", "send", ln.Addr().String(), "meter"); err != nil || strings.Count(said, "trying again: 69") != 7 {
			t.Errorf("%v\n%s", err, said)
		}
	})
}

// TestErrorPage: a load balancer that has no gateway at the moment answers with an error page, or with anything else.
// Clients and readers try again. A first connection to anything other than a gateway ends them.
func TestErrorPage(t *testing.T) {
	const page = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/html\r\n\r\n<html>"
	up := serve(t, &Server{Log: newGate()})
	var logged bytes.Buffer
	to := &answers{addr: up.addr, all: []string{page}}
	c := &Client{Addrs: []string{"any"}, ID: "a", Dial: to.dial, Logger: slog.New(slog.NewTextHandler(&logged, nil))}
	to2 := &answers{addr: up.addr, all: []string{page}}
	r := &Reader{Addrs: []string{"any"}, Name: "r", Start: FromFirst, Dial: to2.dial}
	defer r.Close()
	seq := uint64(0)
	goesOn := func() {
		t.Helper()
		if _, err := c.Submit(soon(t), []byte("x")); err != nil {
			t.Error(err)
		}
		b, err := r.Next(soon(t))
		for seq++; err == nil && (len(b.Messages) == 0 || b.Messages[0].Seq != seq); { // it may come again
			b, err = r.Next(soon(t))
		}
		if err != nil {
			t.Error(err)
		}
	}
	goesOn()
	for _, say := range []string{page, "220 mail.example.com ESMTP\r\n"} {
		to.then(&c.dialer, say)
		to2.then(&r.dialer, say)
		goesOn()
	}
	must(t, c.Close(soon(t)))
	for _, want := range []string{`HTTP/1.1 503 Service Unavailable\"`, "not a valid handshake"} {
		if !strings.Contains(logged.String(), want) {
			t.Errorf("%s is not in the log:\n%s", want, &logged)
		}
	}
	to.all = []string{"220 mail.example.com ESMTP\r\n"}
	stranger := &Client{Addrs: []string{"any"}, ID: "b", Dial: to.dial}
	if _, err := stranger.Open(soon(t)); !errors.Is(err, ErrHandshake) {
		t.Error(err)
	}
}

// A refusal that names a time has clients stay away for a random part of it; a session is not lost by it.
func TestRefusalsThatNameATime(t *testing.T) {
	for _, result := range []wire.Result{wire.Overloaded, wire.ShuttingDown} {
		var sum time.Duration
		for range 1000 {
			err := refused(result, wire.AppendWithin(nil, 2*time.Second))
			back, ok := errors.AsType[comeBack](err)
			if !ok || back.after > 2*time.Second || !errors.Is(err, result) || isFinal(err) {
				t.Fatalf("%v: %v after %v", result, err, back.after)
			}
			sum += back.after
		}
		if mean := sum / 1000; mean < 900*time.Millisecond || mean > 1100*time.Millisecond {
			t.Errorf("%v: %v on average, want 1 s", result, mean)
		}
		if err := refused(result, []byte("in English")); err != result {
			t.Errorf("without a time: %v", err)
		}
	}
	if isFinal(refused(wire.TooSlow, nil)) {
		t.Error("a client ends that was slow once")
	}
}

// The Python programs do so, too.
func TestPythonStaysAway(t *testing.T) {
	t.Parallel() // it waits more than it works
	said, err := python(t, "-c", `
from honed.wire import Away, check
for result in 5, 7:
    pauses = []
    for _ in range(1000):
        try:
            check(result, b"2000")
        except Away as away:
            pauses.append(away.pause)
    assert len(pauses) == 1000 and max(pauses) <= 2 and 0.9 < sum(pauses) / 1000 < 1.1, pauses
    try:
        check(result, b"in English")
    except ConnectionError as lost:
        assert not isinstance(lost, Away)
`).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, said)
	}
}
