package websocket

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/internal/testrun"
)

// connected dials a server that the test controls.
func connected(t *testing.T, url string, o Options) *Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := Dial(ctx, url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(NormalClosure, "") })
	return c
}

// exchange writes a message and reads the answer.
func exchange(t *testing.T, c *Client, kind Kind, msg string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := c.Write(ctx, kind, []byte(msg)); err != nil {
		t.Fatal(err)
	}
	got, answer, err := c.Read(ctx, nil)
	if err != nil || got != kind {
		t.Fatalf("got %v %q, %v", got, answer, err)
	}
	return string(answer)
}

// A Client and an Upgrader work together, with and without compression.
func TestClientAndServer(t *testing.T) {
	run(t, func(t *testing.T, at *place) {
		ends := make(chan ended, 10)
		u := &Upgrader{Message: echo, Compression: &Compression{MinSize: 100}, MessageSize: 1 << 20, Protocols: []string{"b", "a"}}
		u.Closed = func(_ Conn, code Code, why engine.Reason) { ends <- ended{code, why} }
		addr := at.serve(u)
		for _, o := range []Options{{}, {Compression: &Compression{MinSize: 10}, Subprotocols: []string{"a"}}} {
			c := connected(t, "ws://"+addr+"/path?query", o)
			if len(o.Subprotocols) > 0 && c.Subprotocol() != "a" {
				t.Errorf("the subprotocol is %q", c.Subprotocol())
			}
			for _, n := range []int{0, 1, 99, 100, 125, 126, 1000, 65535, 65536, 1 << 20} {
				msg := strings.Repeat("κόσμε!", n/11+1)[:n-n%11]
				if got := exchange(t, c, Text, msg); got != msg {
					t.Errorf("%d bytes: got %d others", n, len(got))
				}
				msg = strings.Repeat("\x00\xff", n/2) + strings.Repeat("x", n%2)
				if got := exchange(t, c, Binary, msg); got != msg {
					t.Errorf("%d bytes: got %d others", n, len(got))
				}
			}
			if err := c.Close(4321, "enough"); err != nil {
				t.Errorf("Close: %v", err)
			}
			if got := heard(t, ends, "the end"); got != (ended{4321, engine.PeerClosed}) {
				t.Errorf("Closed got %v", got)
			}
		}
	})
}

// Pushes to connections with compression are compressed, by whichever method they are sent.
func TestCompressedPushes(t *testing.T) {
	run(t, func(t *testing.T, at *place) {
		z := &Compression{}
		long := []byte(strings.Repeat("all the same ", 1000))
		p, resp := upgraded(t, at.serve(&Upgrader{Compression: z, Message: func(c Call, dst, msg []byte) ([]byte, error) {
			err := errors.Join(c.Conn().Text(long[:5000], long[5000:]), c.Conn().Send(Prepare(Text, long, z)), c.Conn().Text(long[:10]))
			if err != nil {
				return nil, err
			}
			return nil, c.Later().Text(long)
		}}), "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits")
		if got := resp.Header.Get("Sec-Websocket-Extensions"); !strings.HasPrefix(got, "permessage-deflate; server_no_context_takeover; client_no_context_takeover") {
			t.Errorf("negotiated %q", got)
		}
		p.send(frame(opText, "go"))
		for i := range 4 {
			var head [4]byte
			io.ReadFull(p.r, head[:2])
			n := int(head[1])
			if n == length16 {
				io.ReadFull(p.r, head[2:])
				n = int(head[2])<<8 | int(head[3])
			}
			payload := make([]byte, n)
			if _, err := io.ReadFull(p.r, payload); err != nil {
				t.Fatal(err)
			}
			want := long
			if i == 2 {
				want = long[:10]
			}
			if compressed := head[0]&compressedBit != 0; compressed != (i != 2) {
				t.Errorf("message %d: compressed is %v", i, compressed)
			} else if compressed {
				payload, _ = z.inflate(nil, payload, 1<<20, true)
			}
			if !bytes.Equal(payload, want) {
				t.Errorf("message %d has %d bytes, want %d", i, len(payload), len(want))
			}
		}
	})
}

// A context that ends leaves the connection intact.
func TestClientContexts(t *testing.T) {
	t.Parallel() // it waits
	for _, secure := range []bool{false, true} {
		t.Run(map[bool]string{false: "plain", true: "TLS"}[secure], func(t *testing.T) {
			std := httptest.NewUnstartedServer(nil)
			release := make(chan struct{})
			u := &Upgrader{Message: func(_ Call, dst, msg []byte) ([]byte, error) {
				<-release
				return append(dst, msg...), nil
			}}
			std.Config.Handler = u
			o, url := Options{}, "ws://"
			if secure {
				std.StartTLS()
				url, o.TLS = "wss://", std.Client().Transport.(*http.Transport).TLSClientConfig
			} else {
				std.Start()
			}
			defer std.Close()
			defer u.Shutdown(t.Context())
			c := connected(t, url+std.Listener.Addr().String(), o)
			never, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			if _, _, err := c.Read(never, nil); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("Read: %v", err)
			}
			// The server does not read now, so at some point a Write has to wait.
			block := make([]byte, 60<<10)
			written := 0
			for ; written < 10_000; written++ {
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				err := c.Write(ctx, Binary, block)
				cancel()
				if err != nil {
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Fatalf("Write: %v", err)
					}
					break
				}
			}
			if err := c.Write(never, Binary, block); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a Write that had to wait for another: %v", err)
			}
			close(release)
			for i := range written + 1 { // the interrupted one is also sent
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				_, msg, err := c.Read(ctx, nil)
				cancel()
				if err != nil || !bytes.Equal(msg, block) {
					t.Fatalf("message %d of %d: %d bytes, %v", i, written+1, len(msg), err)
				}
			}
			if got := exchange(t, c, Text, "as it was"); got != "as it was" {
				t.Errorf("got %q", got)
			}
		})
	}
}

// Both sides answer pings with the ping's payload.
func TestClientPing(t *testing.T) {
	run(t, func(t *testing.T, at *place) {
		c := connected(t, "ws://"+at.serve(&Upgrader{Message: echo}), Options{})
		var reader sync.WaitGroup
		reading, stop := context.WithCancel(t.Context())
		reader.Go(func() {
			if _, _, err := c.Read(reading, nil); !errors.Is(err, context.Canceled) {
				t.Errorf("Read: %v", err)
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for range 10 {
			if err := c.Ping(ctx); err != nil {
				t.Error(err)
			}
		}
		stop()
		reader.Wait()
	})
}

// serverOf is a hand-written server: it answers the handshake with answer, unless that is
// empty, and then calls play.
func serverOf(t *testing.T, answer string, play func(p *peer)) (url string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		nc, err := ln.Accept()
		if err != nil {
			return
		}
		defer nc.Close()
		nc.SetDeadline(time.Now().Add(patience))
		p := &peer{nc, t, bufio.NewReader(nc)}
		r, err := http.ReadRequest(p.r)
		if err != nil {
			t.Error(err)
			return
		}
		if answer == "" {
			answer = string(appendSwitching(nil, handshake{accept: acceptFor(r.Header.Get(keyHeader))}, nil))
		}
		io.WriteString(nc, answer)
		if play != nil {
			play(p)
		}
	})
	t.Cleanup(func() {
		ln.Close()
		wg.Wait()
	})
	return "ws://" + ln.Addr().String()
}

// A Client answers every ping even if the user never writes.
func TestClientAnswersPings(t *testing.T) {
	ponged := make(chan struct{})
	url := serverOf(t, "", func(p *peer) {
		defer close(ponged)
		var all []byte
		for i := range 10 {
			all = append(all, served(opPing, string(rune('0'+i)))...)
		}
		p.send(append(all, served(opText, "done")...))
		var d decoder
		d.limit, d.server = 1000, true
		got := ""
		buf := make([]byte, 10*7)
		if _, err := io.ReadFull(p.r, buf); err != nil {
			t.Error(err)
		}
		for len(buf) > 0 {
			e, f := d.next(buf)
			if f != 0 || e.op != opPong {
				t.Errorf("got %v %v", e, f)
				return
			}
			got += string(e.payload)
			buf = buf[e.used:]
		}
		if got != "0123456789" {
			t.Errorf("pongs to %q", got)
		}
	})
	c := connected(t, url, Options{})
	if _, msg, err := c.Read(t.Context(), nil); err != nil || string(msg) != "done" {
		t.Errorf("got %q, %v", msg, err)
	}
	heard(t, ponged, "the pongs")
}

// Read returns the end of the connection, every time.
func TestClientReadReportsTheEnd(t *testing.T) {
	for _, c := range []struct {
		name string
		sent []byte
		code Code // of the Close frame that is received; 0: none
		says []byte
	}{
		{"Close", closing(GoingAway, "bye"), GoingAway, []byte("\x03\xe9")},
		{"no code", []byte{finBit | byte(opClose), 0}, NoStatus, nil},
		{"masked", frame(opText, "x"), 0, append([]byte("\x03\xea"), faultMasked.String()...)},
		{"not UTF-8", served(opText, "\xff"), 0, append([]byte("\x03\xef"), faultText.String()...)},
		{"too long", served(opBinary, strings.Repeat("x", 101)), 0, append([]byte("\x03\xf1"), faultTooBig.String()...)},
		{"nothing", nil, 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			said := make(chan []byte, 1)
			url := serverOf(t, "", func(p *peer) {
				p.send(append(served(opText, "first"), c.sent...))
				if c.sent == nil {
					return
				}
				all, _ := io.ReadAll(io.LimitReader(p.r, int64(6+len(c.says))))
				d := decoder{limit: 1000, server: true}
				if e, f := d.next(all); f == 0 && e.op == opClose {
					said <- e.payload
				}
			})
			client := connected(t, url, Options{MessageSize: 100})
			if _, msg, err := client.Read(t.Context(), nil); err != nil || string(msg) != "first" {
				t.Fatalf("got %q, %v", msg, err)
			}
			for range 2 {
				_, _, err := client.Read(t.Context(), nil)
				e, ok := errors.AsType[*CloseError](err)
				if !errors.Is(err, ErrClosed) || ok != (c.code != 0) || ok && e.Code != c.code {
					t.Errorf("Read: %v", err)
				}
				if ok && (!errors.Is(err, c.code) || c.code == GoingAway && e.Text != "bye") {
					t.Errorf("Read: %v", err)
				}
			}
			if err := client.Write(t.Context(), Text, nil); !errors.Is(err, ErrClosed) {
				t.Errorf("Write: %v", err)
			}
			if c.sent != nil {
				if got := heard(t, said, "a Close frame"); !bytes.Equal(got, c.says) {
					t.Errorf("the client says %q, want %q", got, c.says)
				}
			}
		})
	}
}

// Close waits for the server's Close frame, whoever reads it, and leaves no goroutine.
func TestClientClose(t *testing.T) {
	run(t, func(t *testing.T, at *place) {
		c := connected(t, "ws://"+at.serve(&Upgrader{Message: echo}), Options{})
		var reader sync.WaitGroup
		reader.Go(func() {
			if _, _, err := c.Read(t.Context(), nil); !errors.Is(err, GoingAway) {
				t.Errorf("Read: %v", err)
			}
		})
		if err := c.Close(GoingAway, ""); err != nil {
			t.Error(err)
		}
		reader.Wait()
		if err := c.Close(GoingAway, ""); err != nil {
			t.Errorf("closed twice: %v", err)
		}
		if err := c.Ping(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("Ping: %v", err)
		}
	})
	broken := connected(t, serverOf(t, "", nil), Options{})
	if err := broken.Close(NormalClosure, ""); !errors.Is(err, ErrClosed) {
		t.Errorf("without the server's Close: %v", err)
	}
}

// A response other than a WebSocket is refused, with the reason.
func TestDialRefused(t *testing.T) {
	switching := "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: nonsense\r\n\r\n"
	for _, c := range []struct {
		answer string
		status int // 0: no Refusal
		text   string
	}{
		{"HTTP/1.1 401 Unauthorized\r\nWww-Authenticate: Basic\r\nContent-Length: 3\r\n\r\nno\n", 401, "no"},
		{"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n", 302, "Found"},
		{switching, 101, "Sec-WebSocket-Accept"},
		{"nonsense\r\n\r\n", 0, ""},
	} {
		_, err := Dial(t.Context(), serverOf(t, c.answer, nil), Options{})
		r, ok := errors.AsType[*Refusal](err)
		if err == nil || ok != (c.status != 0) || ok && (r.Status != c.status || !strings.Contains(r.text(), c.text)) {
			t.Errorf("%q: %v", c.answer, err)
		}
	}
	for _, url := range []string{"http://127.0.0.1/", "ws:///path", "ws://127.0.0.1/#part", "::"} {
		if _, err := Dial(t.Context(), url, Options{}); err == nil {
			t.Errorf("%s was dialled", url)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	silent := serverOf(t, "HTTP/1.1 101 ", func(p *peer) { io.Copy(io.Discard, p.r) })
	if _, err := Dial(ctx, silent, Options{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a server that does not answer: %v", err)
	}
}

// The server receives what Options configure.
func TestDialOptions(t *testing.T) {
	heardOf := make(chan *http.Request, 1)
	u := &Upgrader{Message: echo, Open: func(_ Conn, r *http.Request) error {
		heardOf <- r.Clone(context.Background())
		return &Refusal{Status: 402}
	}}
	std := httptest.NewUnstartedServer(u)
	std.Config.ErrorLog = log.New(io.Discard, "", 0) // it would log the bad certificate
	std.StartTLS()
	defer std.Close()
	defer u.Shutdown(t.Context())
	addr := std.Listener.Addr().String()
	var dialled string
	_, err := Dial(t.Context(), "wss://user:word@example.com/path?q=1", Options{
		Header: http.Header{"Cookie": {"a=b"}, "Host": {"other.example"}, "Sec-Websocket-Key": {"mine"}},
		TLS:    std.Client().Transport.(*http.Transport).TLSClientConfig,
		Dial: func(ctx context.Context, network, to string) (net.Conn, error) {
			dialled = network + " " + to
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
	})
	if r, ok := errors.AsType[*Refusal](err); !ok || r.Status != 402 {
		t.Fatalf("got %v", err)
	}
	r := heard(t, heardOf, "the request")
	user, word, _ := r.BasicAuth()
	if dialled != "tcp example.com:443" || r.Host != "other.example" || r.RequestURI != "/path?q=1" || user != "user" || word != "word" || r.Header.Get("Cookie") != "a=b" {
		t.Errorf("dialled %s; the request is %s %v %v", dialled, r.RequestURI, r.Host, r.Header)
	}
	if _, err := Dial(t.Context(), "wss://"+addr, Options{TLS: &tls.Config{}}); !errors.As(err, new(*tls.CertificateVerificationError)) {
		t.Errorf("an unknown certificate: %v", err)
	}
}

// A Client starts no goroutine, and allocates nothing for contexts that cannot end.
func TestClientCost(t *testing.T) {
	if testrun.Race {
		t.Skip("the race detector allocates; go test without -race runs this")
	}
	at := &place{t: t, engine: new(engine.Engine)}
	addr := at.serve(&Upgrader{Message: echo})
	connected(t, "ws://"+addr, Options{}) // warms the server up
	before := runtime.NumGoroutine()
	c, err := Dial(context.Background(), "ws://"+addr, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(NormalClosure, "")
	msg, dst := make([]byte, 100), make([]byte, 0, 200)
	if n := testing.AllocsPerRun(1000, func() {
		if err := c.Write(context.Background(), Binary, msg); err != nil {
			t.Fatal(err)
		}
		if _, dst, err = c.Read(context.Background(), dst[:0]); err != nil || len(dst) != 100 {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations per exchange", n)
	}
	if after := runtime.NumGoroutine(); after > before {
		t.Errorf("%d additional goroutines", after-before)
	}
}
