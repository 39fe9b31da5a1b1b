package http1

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hone-go/hone/engine"
)

// Shutdown closes idle connections of both halves at once, answers requests in progress with
// "Connection: close", and runs the registered functions.
func TestShutdownDrainsBothHalves(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		begun, go_ := make(chan struct{}, 2), make(chan struct{})
		registered := make(chan struct{})
		std := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			if r.URL.Path != "/quick" {
				begun <- struct{}{}
				<-go_
			}
			io.WriteString(w, "done")
		})}
		std.RegisterOnShutdown(func() { close(registered) })
		s := serve(t, &Server{Engine: e, Std: std})
		idle, slowFast, slowLent, half := s.dial(t), s.dial(t), s.dial(t), s.dial(t)
		say(t, idle, getting("/quick"))
		idleReader := bufio.NewReader(idle)
		readAnswer(t, idleReader)
		say(t, half, "GET /quick HTTP/1.0\r\nHost")
		say(t, slowFast, getting("/slow"))
		say(t, slowLent, strings.Replace(chunked, "/up", "/slow", 1))
		<-begun
		<-begun

		down := make(chan error, 1)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		go func() { down <- s.Shutdown(ctx) }()
		if _, err := idleReader.ReadByte(); err != io.EOF {
			t.Errorf("an idle connection read %v, want EOF", err)
		}
		<-registered
		close(go_)
		for _, nc := range []net.Conn{slowFast, slowLent} {
			resp, err := http.ReadResponse(bufio.NewReader(nc), nil)
			if err != nil {
				t.Fatal(err)
			}
			if body, _ := io.ReadAll(resp.Body); string(body) != "done" || !resp.Close {
				t.Errorf("got %q, close %v", body, resp.Close)
			}
			nc.Close()
		}
		idle.Close()
		half.Close()
		if err := <-down; err != nil || time.Since(began) > 4*time.Second {
			t.Errorf("Shutdown took %v: %v", time.Since(began), err)
		}
		if st := s.Stats(); st.Drained.Forced != 0 || st.Open != 0 {
			t.Errorf("%d closed by force, %d open", st.Drained.Forced, st.Open)
		}
	})
}

// Shutdown answers a request whose head has arrived, however long its body takes, and drops half
// a head: as net/http does.
func TestShutdownWaitsForBodies(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, e engine.Engine) {
		const halfHead = "GET / HTTP/1.1\r\nHo"
		s := serve(t, &Server{Engine: e, Handler: http.HandlerFunc(echo)})
		var conns []net.Conn
		sent := 0
		for _, c := range halfBodies {
			nc := s.dial(t)
			say(t, nc, c.begins)
			conns = append(conns, nc)
			sent += len(c.begins)
		}
		later, half := s.dial(t), s.dial(t)
		r := bufio.NewReader(later)
		say(t, later, getting("/1")+halfBodies[0].begins)
		readAnswer(t, r)
		say(t, half, halfHead)
		sent += len(getting("/1")+halfBodies[0].begins) + len(halfHead)
		await(t, "the first parts", func() bool { return s.Stats().BytesIn == uint64(sent) })
		down := make(chan error, 1)
		go func() { down <- s.Shutdown(t.Context()) }()
		if all, err := io.ReadAll(half); err != nil || len(all) > 0 {
			t.Errorf("half a head was answered with %q, %v", all, err)
		}
		await(t, "the drain", func() bool { return s.Stats().Open == len(conns)+1 })
		for i, c := range halfBodies {
			say(t, conns[i], c.rest)
			resp, err := http.ReadResponse(bufio.NewReader(conns[i]), nil)
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
				continue
			}
			if body, err := io.ReadAll(resp.Body); err != nil || c.want != "200 "+string(body) || !resp.Close {
				t.Errorf("%s: got %.60q, %v, close %v", c.name, body, err, resp.Close)
			}
			conns[i].Close()
		}
		say(t, later, halfBodies[0].rest)
		if got := readAnswer(t, r); got != halfBodies[0].want {
			t.Errorf("after a request: %q", got)
		}
		if err := <-down; err != nil {
			t.Error(err)
		}
	})
}

// Shutdown waits for a body only for as long as the body may take.
func TestShutdownDoesNotAwaitABodyForEver(t *testing.T) {
	inFakeTime(t, func(t *testing.T, e engine.Engine, secure bool) {
		s := &Server{Engine: e, Limits: engine.Limits{FrameTime: 5 * time.Second}, Handler: http.HandlerFunc(echo)}
		dial := serveFake(t, s, secure)
		for _, c := range halfBodies {
			nc := dial()
			say(t, nc, c.begins)
			go func() { // an answer, if it says why
				io.Copy(io.Discard, nc)
				nc.Close()
			}()
		}
		synctest.Wait()
		begun := time.Now()
		if err, took := s.Shutdown(t.Context()), time.Since(begun); err != nil || took < 5*time.Second || took > 2*time.Minute {
			t.Errorf("Shutdown returned %v after %v", err, took)
		}
	})
}

// Shutdown returns when its context ends, even if handlers do not return.
func TestShutdownKeepsToItsContext(t *testing.T) {
	inFakeTime(t, func(t *testing.T, e engine.Engine, secure bool) {
		begun, end := make(chan struct{}, 2), make(chan struct{})
		defer close(end)
		s := &Server{Engine: e, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			begun <- struct{}{}
			<-end
		})}
		dial := serveFake(t, s, secure)
		say(t, dial(), getting("/"))
		say(t, dial(), chunked)
		<-begun
		<-begun
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown returned %v", err)
		}
		if took := time.Since(began); took > time.Minute+100*time.Millisecond {
			t.Errorf("Shutdown took %v", took)
		}
	})
}

// hijackings are what a handler may do with a connection that it hijacks. Each writes the
// connection's first line, and serves the rest from where it says.
var hijackings = []struct {
	name  string
	serve func(nc net.Conn, rw *bufio.ReadWriter, returned chan<- net.Conn)
}{
	{"the handler reads", func(nc net.Conn, rw *bufio.ReadWriter, _ chan<- net.Conn) {
		io.Copy(nc, rw)
		nc.Close()
	}},
	{"the handler has returned", func(nc net.Conn, _ *bufio.ReadWriter, returned chan<- net.Conn) { returned <- nc }},
	{"a goroutine reads", func(nc net.Conn, rw *bufio.ReadWriter, _ chan<- net.Conn) {
		go func() {
			io.Copy(nc, rw)
			nc.Close()
		}()
	}},
}

// A server that stops neither waits for hijacked connections nor closes them, and returns what
// net/http returns.
func TestStopLeavesHijackedAlone(t *testing.T) {
	upgrades := []string{"", "Connection: Upgrade\r\nUpgrade: websocket\r\n", "Connection: Upgrade\r\nUpgrade: other\r\n"}
	type server interface {
		Shutdown(context.Context) error
		Close() error
	}
	stops := []struct {
		name string
		stop func(server) error
	}{
		{"Shutdown", func(s server) error { return s.Shutdown(context.Background()) }},
		{"Shutdown with a deadline", func(s server) error {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			return s.Shutdown(ctx)
		}},
		{"Close", server.Close},
	}
	cert, trusted := certified(t)
	// live hijacks a connection of the server that start starts, stops the server, and returns what
	// came of the stop and of the connection.
	live := func(t *testing.T, start func(std *http.Server, ln net.Listener, secure bool) server, upgrade string, hijacking, stop int, secure bool) string {
		returned := make(chan net.Conn, 1)
		s := &http.Server{
			TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"http/1.1"}},
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				nc, rw, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				io.WriteString(nc, "taken\n")
				hijackings[hijacking].serve(nc, rw, returned)
			}),
		}
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		running := start(s, ln, secure)
		nc, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		nc.SetDeadline(time.Now().Add(20 * time.Second))
		if secure {
			nc = tls.Client(nc, &tls.Config{RootCAs: trusted, ServerName: "127.0.0.1"})
		}
		io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n"+upgrade+"\r\n")
		r := bufio.NewReader(nc)
		if line, err := r.ReadString('\n'); line != "taken\n" {
			t.Fatalf("%q, %v", line, err)
		}
		began := time.Now()
		outcome := stops[stop].stop(running)
		late := time.Since(began) > 5*time.Second // it would wait for ever
		echo := net.Conn(nc)
		if hijackings[hijacking].name == "the handler has returned" {
			echo = <-returned
			defer echo.Close()
		}
		io.WriteString(echo, "still there\n")
		line, err := r.ReadString('\n')
		return fmt.Sprint(outcome, ", late ", late, ", then ", line, err)
	}
	run(t, func(t *testing.T, e engine.Engine) {
		for _, secure := range []bool{false, true} {
			for i := range upgrades {
				for j := range hijackings {
					for k := range stops {
						name := fmt.Sprintf("%s/TLS %v/%.30q/%s", stops[k].name, secure, upgrades[i], hijackings[j].name)
						want := live(t, func(std *http.Server, ln net.Listener, secure bool) server {
							if secure {
								go std.ServeTLS(ln, "", "")
							} else {
								go std.Serve(ln)
							}
							return std
						}, upgrades[i], j, k, secure)
						before := runtime.NumGoroutine()
						got := live(t, func(std *http.Server, ln net.Listener, secure bool) server {
							s := &Server{Engine: e, Std: std}
							if secure {
								go s.ServeTLS(ln, "", "")
							} else {
								go s.Serve(ln)
							}
							return s
						}, upgrades[i], j, k, secure)
						if got != want || !strings.Contains(want, "still there") {
							t.Errorf("%s: got %q, net/http %q", name, got, want)
						}
						await(t, "the goroutines' end", func() bool { return runtime.NumGoroutine() <= before })
					}
				}
			}
		}
	})
}

// A Shutdown whose context ends while a request is in progress leaves hijacked connections alone.
func TestEndOfContextLeavesHijackedAlone(t *testing.T) {
	for _, upgrade := range []string{"websocket", "other"} {
		run(t, func(t *testing.T, e engine.Engine) {
			begun, end := make(chan struct{}), make(chan struct{})
			s := serve(t, &Server{Engine: e, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/slow" {
					close(begun)
					<-end
					return
				}
				nc, rw, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				io.WriteString(nc, "taken\n")
				io.Copy(nc, rw)
				nc.Close()
			})})
			slow, taken := s.dial(t), s.dial(t)
			say(t, taken, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: "+upgrade+"\r\n\r\n")
			r := bufio.NewReader(taken)
			if line, err := r.ReadString('\n'); line != "taken\n" {
				t.Fatalf("%q, %v", line, err)
			}
			say(t, slow, getting("/slow"))
			<-begun
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := s.Shutdown(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("Shutdown returned %v", err)
			}
			close(end)
			say(t, taken, "still there\n")
			if line, err := r.ReadString('\n'); line != "still there\n" {
				t.Errorf("%q, %v", line, err)
			}
		})
	}
}

func TestServeAfterShutdown(t *testing.T) {
	before := runtime.NumGoroutine()
	s := &Server{}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(ln); err != http.ErrServerClosed {
		t.Errorf("Serve returned %v", err)
	}
	if err := s.ListenAndServe(); err != http.ErrServerClosed {
		t.Errorf("ListenAndServe returned %v", err)
	}
	await(t, "the server's goroutines to end", func() bool { return runtime.NumGoroutine() <= before })
}

// A server leaves no goroutine behind, and starts none for loans before it serves.
func TestGoroutines(t *testing.T) {
	for _, e := range engine.All() {
		t.Run(e.Name(), func(t *testing.T) {
			before := runtime.NumGoroutine()
			for range 3 {
				s := &Server{Engine: e, Handler: http.HandlerFunc(echo), Std: &http.Server{}}
				s.SetKeepAlivesEnabled(true)
				buf := make([]byte, 1<<20)
				if n := runtime.Stack(buf, true); strings.Contains(string(buf[:n]), "net/http.(*Server).Serve(") {
					t.Fatalf("net/http started before Serve was called\n%s", buf[:n])
				}
				ln, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				served := make(chan error, 1)
				go func() { served <- s.Serve(ln) }()
				nc, err := net.Dial("tcp", ln.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				say(t, nc, chunked+getting("/"))
				r := bufio.NewReader(nc)
				readAnswer(t, r)
				readAnswer(t, r)
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				<-served
				nc.Close()
			}
			await(t, "all goroutines to end", func() bool { return runtime.NumGoroutine() <= before })
		})
	}
}

// A connection has two goroutines while it is lent, and none when it is back.
func TestLoanGoroutines(t *testing.T) {
	for _, e := range engine.All() {
		t.Run(e.Name(), func(t *testing.T) {
			const conns = 50
			begun, end := make(chan struct{}, conns), make(chan struct{})
			s := serve(t, &Server{Engine: e, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/up" {
					begun <- struct{}{}
					<-end
				}
				io.Copy(io.Discard, r.Body)
			})})
			var all []net.Conn
			for range conns {
				nc := s.dial(t)
				say(t, nc, getting("/"))
				readAnswer(t, bufio.NewReader(nc))
				all = append(all, nc)
			}
			idle := settled()
			for _, nc := range all {
				say(t, nc, chunked)
			}
			for range conns {
				<-begun
			}
			if lent := goroutines() - idle; lent > 2*conns+10 {
				t.Errorf("%d additional goroutines for %d loans", lent, conns)
			}
			close(end)
			for _, nc := range all {
				readAnswer(t, bufio.NewReader(nc))
			}
			await(t, "the goroutines' end", func() bool { return goroutines() <= idle+2 })
		})
	}
}

// settled is goroutines once it has stopped falling.
func settled() int {
	n := goroutines()
	for range 50 {
		<-time.After(2 * time.Millisecond)
		n = min(n, goroutines())
	}
	return n
}

// goroutines counts those of the process but the engine's helpers, of which a busy machine needs more, and
// which end some sweeps later.
func goroutines() (n int) {
	all := make([]byte, 4<<20)
	for _, stack := range bytes.Split(all[:runtime.Stack(all, true)], []byte("\n\n")) {
		if !bytes.Contains(stack, []byte("engine.(*helper).work(")) {
			n++
		}
	}
	return n
}

// Without keep-alives, every connection closes after one answer, in both halves, and idle
// connections close.
func TestKeepAlivesOff(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		s := serve(t, &Server{Engine: e, Handler: http.HandlerFunc(echo)})
		for _, on := range []bool{false, true} {
			s.SetKeepAlivesEnabled(on)
			for _, request := range []string{getting("/"), chunked} {
				nc := s.dial(t)
				say(t, nc, request)
				resp, err := http.ReadResponse(bufio.NewReader(nc), nil)
				if err != nil {
					t.Fatal(err)
				}
				if resp.Close == on {
					t.Errorf("keep-alives %v: the answer says close %v", on, resp.Close)
				}
			}
		}
		for _, request := range []string{getting("/"), chunked} { // while keep-alives are on
			nc := s.dial(t)
			r := bufio.NewReader(nc)
			say(t, nc, request)
			readAnswer(t, r)
			await(t, "the loan's end", func() bool { return s.Stats().OpenLoans == 0 })
			await(t, "the end of an idle connection", func() bool {
				s.SetKeepAlivesEnabled(false) // it may not have been idle the first time
				nc.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
				_, err := r.ReadByte()
				return err == io.EOF
			})
			s.SetKeepAlivesEnabled(true)
		}
	})
}
