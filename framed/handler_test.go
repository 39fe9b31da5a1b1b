package framed_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/wire"
)

// TestErrorBecomesTheResult: output appended before the error is dropped, and the
// connection stays open.
func TestErrorBecomesTheResult(t *testing.T) {
	answers := []struct {
		err  error
		want wire.Result
	}{
		{errors.New("no reason that the wire knows"), wire.Failed},
		{wire.Unauthorised, wire.Unauthorised},
		{fmt.Errorf("token: %w", fmt.Errorf("expired: %w", wire.Unauthorised)), wire.Unauthorised},
		{errors.Join(io.EOF, wire.Overloaded), wire.Overloaded},
		{wire.Result(77), 77},
		{wire.OK, wire.Failed},
		{nil, wire.OK},
	}
	run(t, func(t *testing.T, e engine.Engine) {
		h := framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
			return append(dst, req...), answers[c.ID()].err
		})
		p := dial(t, serve(t, &framed.Server{Engine: e, Handler: h, Connect: h}))
		var out, want []byte
		for _, content := range []string{"", "partial", strings.Repeat("partial ", 5000)} {
			for id, a := range answers {
				for request, reply := range map[wire.Command]wire.Command{wire.Submit: wire.SubmitAck, wire.Conn: wire.ConnAck} {
					text := content
					if a.want != wire.OK {
						text = ""
					}
					out = append(out, frame(request, uint64(id), 0, content)...)
					want = append(want, frame(reply, uint64(id), a.want, text)...)
				}
			}
		}
		if err := p.converse(want, whole(out)); err != nil {
			t.Fatal(err)
		}
	})
}

// TestAnySliceMayBeReturned: appended to dst or not, the returned slice is the reply's
// content, and earlier replies of the same visit are not affected.
func TestAnySliceMayBeReturned(t *testing.T) {
	constant := []byte("a constant")
	big := textOf(rand.New(rand.NewPCG(1, 1)), 70_000)
	ways := []struct {
		name string
		give func(dst, req []byte) []byte
		want func(req string) string
	}{
		{"appended", func(dst, req []byte) []byte { return append(dst, req...) }, func(req string) string { return req }},
		{"a constant", func(dst, req []byte) []byte { return constant }, func(string) string { return "a constant" }},
		{"the request", func(dst, req []byte) []byte { return req }, func(req string) string { return req }},
		{"a part of the request", func(dst, req []byte) []byte { return req[len(req)/2:] }, func(req string) string { return req[len(req)/2:] }},
		{"dst from its second byte", func(dst, req []byte) []byte { return append(append(dst, 'x'), req...)[1:] }, func(req string) string { return req }},
		{"dst from its end", func(dst, req []byte) []byte { dst = append(dst, req...); return dst[len(dst):] }, func(string) string { return "" }},
		{"the front of what was appended", func(dst, req []byte) []byte { return append(dst, req...)[:len(req)/2] }, func(req string) string { return req[:len(req)/2] }},
		{"nil", func(dst, req []byte) []byte { return nil }, func(string) string { return "" }},
		{"dst", func(dst, req []byte) []byte { return dst }, func(string) string { return "" }},
		{"dst scribbled on and given up", func(dst, req []byte) []byte { _ = append(dst, "scribbled over all the room there is"...); return req }, func(req string) string { return req }},
		{"all of dst's room", func(dst, req []byte) []byte {
			dst = append(dst, req...)
			return append(dst, make([]byte, cap(dst)-len(dst))...)[:len(req)]
		}, func(req string) string { return req }},
		{"large", func(dst, req []byte) []byte { return append(dst, big...) }, func(string) string { return string(big) }},
		{"large constant", func(dst, req []byte) []byte { return big }, func(string) string { return string(big) }},
	}
	run(t, func(t *testing.T, e engine.Engine) {
		addr := serve(t, &framed.Server{Engine: e, Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
			if len(dst) != 0 {
				t.Errorf("dst has %d bytes, want an empty one", len(dst))
			}
			return ways[c.ID()].give(dst, req), nil
		})})
		for id, way := range ways {
			var out, want []byte
			for i := range 20 {
				for _, id := range []int{0, id, i % len(ways)} {
					req := fmt.Sprintf("request %d by way %d", i, id)
					out = append(out, submit(uint64(id), req)...)
					want = append(want, ack(uint64(id), ways[id].want(req))...)
				}
			}
			p := dial(t, addr)
			if err := p.converse(want, whole(out)); err != nil {
				t.Errorf("%s: %v", way.name, err)
			}
			p.Close()
		}
	})
}

// TestPanicEndsItsConnectionOnly: the request that panicked is answered with Internal,
// those before it in the same visit normally.
func TestPanicEndsItsConnectionOnly(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		h := framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
			dst = append(dst, req...)
			switch string(req) {
			case "panic":
				panic("a handler's")
			case "index":
				_ = dst[len(dst)+len(req)]
			case "nil":
				panic(nil)
			}
			return dst, nil
		})
		s := &framed.Server{Engine: e, Handler: h, Connect: h}
		addr := serve(t, s)
		other := dial(t, addr)
		other.send(submit(1, "before"))
		other.want(ack(1, "before"))
		for i, how := range []string{"panic", "index", "nil", "panic"} {
			p := dial(t, addr)
			var out []byte
			for id := range uint64(10) {
				out = append(out, submit(id, "earlier")...)
			}
			if i < 3 {
				out = append(out, submit(10, how)...)
			} else {
				out = append(out, frame(wire.Conn, 10, 0, how)...)
			}
			p.send(append(out, submit(11, "never served")...))
			for id := range uint64(10) {
				p.want(ack(id, "earlier"))
			}
			if i < 3 {
				p.want(frame(wire.SubmitAck, 10, wire.Internal, ""))
			} else {
				p.want(frame(wire.ConnAck, 10, wire.Internal, ""))
			}
			p.wantEnd()
			p.Close()
			other.send(submit(uint64(i), "alive"))
			other.want(ack(uint64(i), "alive"))
		}
		ended(t, s, engine.Panicked, 4)
		if st := s.Stats(); st.Panics != 4 || st.Open != 1 {
			t.Errorf("counted %d panics and %d open connections, want 4 and 1", st.Panics, st.Open)
		}
	})
}

// TestCallKeptBeyondItsHandlerPanics: a stale Call panics with the package's name instead
// of accessing another request, in the same visit and in a later one.
func TestCallKeptBeyondItsHandlerPanics(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		var kept framed.Call
		said := make(chan any, 8)
		misuse := func(f func(framed.Call)) {
			defer func() { said <- recover() }()
			f(kept)
		}
		p := dial(t, serve(t, &framed.Server{Engine: e, Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
			if string(req) == "keep" {
				kept = c
				return dst, nil
			}
			misuse(func(c framed.Call) { c.Conn() })
			misuse(func(c framed.Call) { c.Context() })
			misuse(func(c framed.Call) { c.Later() })
			return append(dst, req...), nil
		})}))
		for range 2 {
			p.send(append(submit(1, "keep"), submit(2, "use")...))
			p.want(ack(1, ""))
			p.want(ack(2, "use"))
			p.send(submit(3, "use"))
			p.want(ack(3, "use"))
			for range 6 {
				if v, ok := heard(t, said, "a misuse").(string); !ok || !strings.HasPrefix(v, "framed: ") {
					t.Errorf("a stale Call panicked with %q, want a panic that names the package", v)
				}
			}
		}
		p.closeWrite() // no reply was promised
		p.wantEnd()
	})
}

// adapter wraps a listener's connections in a type that is only a net.Conn.
type adapter struct{ net.Listener }

func (a adapter) Accept() (net.Conn, error) {
	nc, err := a.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return struct{ net.Conn }{nc}, nil
}

// flipping inverts every bit on the wire, in connections that embed the socket, to detect
// access that bypasses them.
type flipping struct{ net.Listener }

func (f flipping) Accept() (net.Conn, error) {
	nc, err := f.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return flipped{nc.(*net.TCPConn)}, nil
}

type flipped struct{ *net.TCPConn }

func (f flipped) Read(p []byte) (int, error) {
	n, err := f.TCPConn.Read(p)
	for i := range p[:n] {
		p[i] = ^p[i]
	}
	return n, err
}

func (f flipped) Write(p []byte) (int, error) {
	q := make([]byte, len(p))
	for i := range p {
		q[i] = ^p[i]
	}
	return f.TCPConn.Write(q)
}

// TestEveryListenerIsServedAlike: TCP, unix sockets, TLS, and adapters that are only a
// net.Conn to the engine.
func TestEveryListenerIsServedAlike(t *testing.T) {
	listeners := map[string]func(t *testing.T) (net.Listener, func() (net.Conn, error)){
		"tcp": func(t *testing.T) (net.Listener, func() (net.Conn, error)) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			return ln, func() (net.Conn, error) { return net.Dial("tcp", ln.Addr().String()) }
		},
		"unix": func(t *testing.T) (net.Listener, func() (net.Conn, error)) {
			path := filepath.Join(t.TempDir(), "s")
			ln, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			return ln, func() (net.Conn, error) { return net.Dial("unix", path) }
		},
		"tls": func(t *testing.T) (net.Listener, func() (net.Conn, error)) {
			ln, err := tls.Listen("tcp", "127.0.0.1:0", tlsConfig(t))
			if err != nil {
				t.Fatal(err)
			}
			return ln, func() (net.Conn, error) {
				return tls.Dial("tcp", ln.Addr().String(), &tls.Config{InsecureSkipVerify: true})
			}
		},
		"hidden": func(t *testing.T) (net.Listener, func() (net.Conn, error)) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			return adapter{ln}, func() (net.Conn, error) { return net.Dial("tcp", ln.Addr().String()) }
		},
		"embedded": func(t *testing.T) (net.Listener, func() (net.Conn, error)) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			return flipping{ln}, func() (net.Conn, error) {
				nc, err := net.Dial("tcp", ln.Addr().String())
				if err != nil {
					return nil, err
				}
				return flipped{nc.(*net.TCPConn)}, nil
			}
		},
	}
	run(t, func(t *testing.T, e engine.Engine) {
		for name, listen := range listeners {
			t.Run(name, func(t *testing.T) {
				ln, dial := listen(t)
				talk(t, e, ln, func() *peer {
					nc, err := dial()
					if err != nil {
						t.Fatal(err)
					}
					return peerOf(t, nc)
				})
			})
		}
	})
}

// talk uses all features in a conversation with a server on ln.
func talk(t *testing.T, e engine.Engine, ln net.Listener, dial func() *peer) {
	h, owed := postponing(10)
	h2, met := introducing()
	ends := make(chan engine.Reason, 4)
	s := &framed.Server{
		Engine: e,
		Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
			switch {
			case strings.HasPrefix(string(req), "late"):
				return h(c, dst, req)
			case string(req) == "panic":
				panic("a handler's")
			}
			return h2(c, dst, req)
		}),
		OnClose: func(_ framed.Conn, why engine.Reason) { ends <- why },
	}
	serveOn(t, s, ln)

	p := dial()
	p.send(submit(1, "hello"))
	c := heard(t, met, "a handler")
	p.want(ack(1, "hello"))
	if a, ok := p.LocalAddr().(*net.TCPAddr); ok && c.RemoteAddr() != a.AddrPort() {
		t.Errorf("RemoteAddr is %v, want %v", c.RemoteAddr(), a)
	} else if !ok && c.RemoteAddr().IsValid() {
		t.Errorf("RemoteAddr is %v, want the zero one", c.RemoteAddr())
	}
	var out, want []byte
	rnd := rand.New(rand.NewPCG(1, 1))
	for id := range uint64(300) {
		content := string(textOf(rnd, rnd.IntN(2000)))
		out = append(out, submit(id, "x"+content)...)
		want = append(want, ack(id, "x"+content)...)
	}
	if err := p.converse(want, func(w io.Writer) error { return inPieces(w, out, rnd) }); err != nil {
		t.Fatal(err)
	}
	p.send(append(submit(1, "late 1"), submit(2, "late 2")...))
	one, two := heard(t, owed, "a handler"), heard(t, owed, "a handler")
	two.Send([]byte("done"))
	p.want(ack(2, "done"))
	c.Push(9, []byte("news"))
	p.want(deliver(9, "news"))
	one.Send([]byte("done"))
	p.want(ack(1, "done"))

	p.send(submit(3, "late 3"))
	p.closeWrite()
	heard(t, owed, "a handler").Send([]byte("after the half-close"))
	p.want(ack(3, "after the half-close"))
	p.wantEnd()
	if why := heard(t, ends, "OnClose"); why != engine.PeerClosed {
		t.Errorf("closed for %v, want %v", why, engine.PeerClosed)
	}

	p = dial()
	p.send(submit(1, "panic"))
	p.want(frame(wire.SubmitAck, 1, wire.Internal, ""))
	p.wantEnd()
	p.Close()
	heard(t, ends, "OnClose")
	eventually(t, "no connection is counted", func() bool { return s.Stats().Open == 0 })

	p = dial()
	p.send(submit(1, "late"))
	r := heard(t, owed, "a handler")
	done := shutdown(t.Context(), s)
	none(t, done, "Shutdown returned although a reply is owed")
	r.Send([]byte("done"))
	p.want(ack(1, "done"))
	p.wantRefusal(wire.ShuttingDown)
	p.Close()
	drained(t, done, 1)
}
