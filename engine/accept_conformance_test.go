package engine_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
)

// trustingLoopback makes every connection of a test come from a trusted proxy.
func trustingLoopback(s *engine.Server) {
	s.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
}

// noticing is a listener that reports when it is used.
type noticing struct {
	net.Listener
	accepts atomic.Bool
}

func (l *noticing) Accept() (net.Conn, error) {
	l.accepts.Store(true)
	return l.Listener.Accept()
}

// Stats may be called at any time, even while Serve starts.
func TestStatsWhileServeBegins(t *testing.T) {
	const rounds = 20
	oneByOne(t, over(overTCP), func(t *testing.T, g ground) {
		for range rounds {
			s := &engine.Server{Protocol: answering, Engine: g.engine}
			ln, served := &noticing{Listener: listen(t, overTCP)}, make(chan error, 1)
			go func() { served <- s.Serve(ln) }()
			for !ln.accepts.Load() {
				if open := s.Stats().Open; open != 0 {
					t.Errorf("%d connections are open, want none before the first dial", open)
				}
				runtime.Gosched()
			}
			s.Close()
			if err := heard(t, served, "Serve returns"); err != engine.ErrServerClosed {
				t.Errorf("Serve returned %v, want ErrServerClosed", err)
			}
		}
	})
}

// forgetful is an adapter that has no addresses any more once it is closed.
type forgetful struct {
	adapter
	once   *sync.Once
	closed chan struct{}
	lost   func() net.Addr
}

func (f forgetful) Close() error {
	f.once.Do(func() { close(f.closed) })
	return f.adapter.Close()
}

func (f forgetful) RemoteAddr() net.Addr {
	select {
	case <-f.closed:
		return f.lost()
	default:
		return f.adapter.RemoteAddr()
	}
}

// An ended connection no longer counts for its address, whatever its RemoteAddr does once
// it is closed.
func TestPlaceOfAnAddressIsGivenBack(t *testing.T) {
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	for name, lost := range map[string]func() net.Addr{
		"nil":    func() net.Addr { return nil },
		"blocks": func() net.Addr { <-release; return nil },
		"panics": func() net.Addr { panic("an adapter's") },
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, over(overAdapter), func(t *testing.T, g ground) {
				if name != "nil" && !alone(t) {
					return
				}
				ln := adapting{listen(t, overTCP), func(nc net.Conn) net.Conn {
					return forgetful{adapter{nc}, new(sync.Once), make(chan struct{}), lost}
				}}
				s := serveOn(t, g, ln, answering, func(s *engine.Server) { s.Limits.ConnsPerAddress = 1 })
				for range 3 {
					if !eventually(patience/5, func() bool { return isServed(s, patience/5) }) {
						t.Fatal("a connection was refused although all before it have ended")
					}
				}
			})
		})
	}
}

// isServed reports whether the server answers a new connection.
func isServed(s *server, within time.Duration) bool {
	nc, err := net.Dial(s.addr.Network(), s.addr.String())
	if err != nil {
		return false
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(within))
	io.WriteString(nc, "hello\n")
	answer := make([]byte, len("answer\n"))
	_, err = io.ReadFull(nc, answer)
	return err == nil && string(answer) == "answer\n"
}

// All addresses of one IPv6 /64 share a limit, and ended connections no longer count;
// other networks and IPv4 do not share it.
func TestConnsPerAddressCountsNetworksOfIPv6(t *testing.T) {
	onEach(t, over(overTCP), func(t *testing.T, g ground) {
		s := serve(t, g, answering, trustingLoopback, func(s *engine.Server) { s.Limits.ConnsPerAddress = 2 })
		ask := func(addr string) (c *client, answer string) {
			c = s.dial(t)
			family := "TCP4"
			if strings.Contains(addr, ":") {
				family = "TCP6"
			}
			c.send("PROXY " + family + " " + addr + " " + addr + " 4000 7000\r\nhello\n")
			answer, _ = c.r.ReadString('\n')
			return c, answer
		}
		const served, refused = "answer\n", "refused too_many_per_address\n"
		from := func(addr, want string) *client {
			t.Helper()
			c, answer := ask(addr)
			if answer != want {
				t.Fatalf("a connection from %s is answered %q, want %q", addr, answer, want)
			}
			return c
		}
		first := from("2001:db8:0:1::1", served)
		from("2001:db8:0:1:ffff::2", served)
		from("2001:db8:0:1:8000::", refused)
		from("2001:db8:0:2::1", served)
		from("2001:db8::1", served)
		for range 2 {
			from("192.0.2.1", served)
			from("192.0.2.2", served)
		}
		from("192.0.2.2", refused)
		first.Close()
		if !eventually(patience, func() bool { _, answer := ask("2001:db8:0:1::3"); return answer == served }) {
			t.Error("an ended connection still counts")
		}
		from("2001:db8:0:1::4", refused)
	})
}

// visitors connect to ln one after the other, ask and leave, until the test ends. The channel gets a
// value for each that was answered.
func visitors(t *testing.T, ln net.Listener) (answered chan struct{}) {
	stop := make(chan struct{})
	answered = make(chan struct{}, 1<<10)
	var all sync.WaitGroup
	t.Cleanup(func() {
		close(stop)
		all.Wait()
	})
	for range 2 {
		all.Go(func() {
			for s := (&server{addr: ln.Addr()}); ; {
				select {
				case <-stop:
					return
				default:
				}
				if !isServed(s, patience/5) {
					<-time.After(tick) // refused, or nobody accepts
				} else if len(answered) < cap(answered)/2 {
					answered <- struct{}{}
				}
			}
		})
	}
	return answered
}

// Serve ends when somebody closes its listener, also while connections come one after the other, and
// nobody can connect from then on. The connections stay.
func TestServeEndsWithItsListener(t *testing.T) {
	onEach(t, append(over(overTCP), over(overUnix)...), func(t *testing.T, g ground) {
		ln := listen(t, g.network)
		s := &engine.Server{Protocol: answering, Engine: g.engine}
		defer s.Close()
		served := make(chan error, 1)
		go func() { served <- s.Serve(ln) }()
		answered := visitors(t, ln)
		nc, err := net.Dial(ln.Addr().Network(), ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		nc.SetDeadline(time.Now().Add(patience))
		for range 100 {
			heard(t, answered, "an answer")
		}
		ln.Close()
		if late, err := net.Dial(ln.Addr().Network(), ln.Addr().String()); err == nil {
			late.Close()
			t.Error("somebody listens after Close")
		}
		if err := heard(t, served, "Serve returns"); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Serve returned %v, want %v", err, net.ErrClosed)
		}
		io.WriteString(nc, "hello\n")
		if _, err := io.ReadFull(nc, make([]byte, len("answer\n"))); err != nil {
			t.Error(err)
		}
	})
}

// failures is a Logger that reports when accepting fails.
type failures struct {
	slog.Handler
	failed chan struct{}
}

func (f failures) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "accept failed; trying again" {
		select {
		case f.failed <- struct{}{}:
		default:
		}
	}
	return nil
}

func (f failures) Enabled(context.Context, slog.Level) bool { return true }

// A deadline of the listener applies to Serve, also while connections come one after the other: it
// accepts nobody until the deadline is moved.
func TestListenerHasADeadline(t *testing.T) {
	onEach(t, append(over(overTCP), over(overUnix)...), func(t *testing.T, g ground) {
		failed := make(chan struct{}, 1)
		ln := listen(t, g.network)
		s := serveOn(t, g, ln, answering, func(s *engine.Server) { s.Logger = slog.New(failures{slog.DiscardHandler, failed}) })
		answered := visitors(t, ln)
		for range 50 {
			heard(t, answered, "an answer")
		}
		deadline := ln.(interface{ SetDeadline(time.Time) error })
		deadline.SetDeadline(time.Now())
		heard(t, failed, "Accept's timeout")
		before := s.Stats().Accepted
		heard(t, failed, "another one, a second later")
		if n := s.Stats().Accepted - before; n > 0 {
			t.Errorf("%d connections were accepted after the deadline", n)
		}
		for len(answered) > 0 {
			<-answered
		}
		deadline.SetDeadline(time.Time{})
		heard(t, answered, "an answer, once there is no deadline")
	})
}
