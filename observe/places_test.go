package observe_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hone-go/hone/observe"
)

// inMemory is an Admin that is served without sockets, so that a test can run on fake time.
type inMemory struct {
	t      *testing.T
	dialed chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *inMemory) Accept() (net.Conn, error) {
	select {
	case nc := <-l.dialed:
		return nc, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *inMemory) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *inMemory) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "unix"} }

// onFakeTime serves a on fake time while test runs.
func onFakeTime(t *testing.T, a *observe.Admin, test func(t *testing.T, l *inMemory)) {
	synctest.Test(t, func(t *testing.T) {
		l := &inMemory{t: t, dialed: make(chan net.Conn), closed: make(chan struct{})}
		served := make(chan error, 1)
		go func() { served <- a.Serve(l) }()
		test(t, l)
		brief, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		a.Shutdown(brief) // the clients are still connected
		if err := <-served; err != http.ErrServerClosed {
			t.Errorf("Serve returned %v, want http.ErrServerClosed", err)
		}
	})
}

// visitor is a client's connection.
type visitor struct {
	net.Conn
	t  *testing.T
	in *bufio.Reader
}

// pipe is the server's end of a connection in memory. Only this machine has it.
type pipe struct{ net.Conn }

func (p *pipe) LocalAddr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "unix"} }

// dial connects, and waits until the server has taken the connection.
func (l *inMemory) dial() *visitor {
	near, far := net.Pipe()
	l.t.Cleanup(func() { near.Close() })
	l.dialed <- &pipe{far}
	synctest.Wait()
	return &visitor{Conn: near, t: l.t, in: bufio.NewReader(near)}
}

// ask sends a request and reads the whole response.
func (v *visitor) ask(path string) error {
	if _, err := fmt.Fprintf(v, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path); err != nil {
		return err
	}
	response, err := http.ReadResponse(v.in, nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

// isOpen reports whether the server has left the connection open.
func (v *visitor) isOpen() bool {
	v.SetReadDeadline(time.Now().Add(time.Nanosecond))
	_, err := v.in.ReadByte()
	v.SetReadDeadline(time.Time{})
	timeout, ok := err.(net.Error)
	return ok && timeout.Timeout()
}

// served checks that the server answers the connection.
func (v *visitor) served() {
	v.t.Helper()
	if err := v.ask("/healthz"); err != nil {
		v.t.Errorf("not served: %v", err)
	}
	synctest.Wait()
}

// wantOpen checks which of some connections the server has left open.
func wantOpen(t *testing.T, what string, all []*visitor, want ...bool) {
	t.Helper()
	for i, v := range all {
		if got := v.isOpen(); got != want[i] {
			t.Errorf("%s %d is open: %v, want %v", what, i, got, want[i])
		}
	}
}

// At the limit, connections that have never sent a request are closed first, the oldest
// first, and then those that have been idle longest.
func TestWaitingConnectionsMakeRoom(t *testing.T) {
	onFakeTime(t, &observe.Admin{Stats: nothing, MaxConns: 5}, func(t *testing.T, l *inMemory) {
		idle := []*visitor{l.dial(), l.dial()}
		for _, v := range idle {
			v.served()
			<-time.After(time.Second)
		}
		silent := []*visitor{l.dial(), l.dial(), l.dial()}
		io.WriteString(silent[1], "GET /healthz HT") // half a request is none
		<-time.After(2 * time.Second)
		var newcomers []*visitor
		for i := range 3 {
			newcomers = append(newcomers, l.dial())
			newcomers[i].served()
			wantOpen(t, "silent connection", silent, i < 0, i < 1, i < 2)
		}
		wantOpen(t, "idle connection", idle, true, true)
		idle[0].served() // now the other one has been idle for longest
		l.dial().served()
		wantOpen(t, "idle connection", idle, true, false)
		wantOpen(t, "newcomer", newcomers, true, true, true)
	})
}

// A connection that was accepted within the last second may be an honest client whose
// request is on its way: idle ones go first, so that a crowd of these does not delay it.
func TestNewConnectionHasTimeToAsk(t *testing.T) {
	onFakeTime(t, &observe.Admin{Stats: nothing, MaxConns: 3}, func(t *testing.T, l *inMemory) {
		idle := []*visitor{l.dial(), l.dial()}
		for _, v := range idle {
			v.served()
		}
		operator := l.dial()
		l.dial()
		l.dial()
		wantOpen(t, "idle connection", idle, false, false)
		operator.served()
	})
}

// A connection whose request is being answered is never closed: at the limit, the new one
// is.
func TestBusyConnectionsStay(t *testing.T) {
	release := make(chan struct{})
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		<-release
		io.WriteString(w, "done")
	})
	onFakeTime(t, &observe.Admin{Stats: nothing, MaxConns: 2, Handlers: map[string]http.Handler{"/slow": page}}, func(t *testing.T, l *inMemory) {
		release = make(chan struct{}) // in the bubble of fake time
		answers := make(chan error, 2)
		for range 2 {
			v := l.dial()
			go func() { answers <- v.ask("/slow") }()
			synctest.Wait()
		}
		if refused := l.dial(); refused.isOpen() {
			t.Error("a connection beyond the limit stays open")
		}
		close(release)
		for range 2 {
			if err := <-answers; err != nil {
				t.Errorf("a request in progress failed: %v", err)
			}
		}
		synctest.Wait()
		l.dial().served()
	})
}
