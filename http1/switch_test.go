package http1

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
)

// shouting answers every byte in upper case, and counts the bytes in Turn.State.
type shouting struct{ ended chan uint64 }

func (p *shouting) Advance(t *engine.Turn, in []byte) (used, need int, err error) {
	if len(in) == 0 {
		return 0, 1, nil
	}
	if !t.Room() {
		return 0, 0, nil
	}
	t.Mark(0)
	t.State += uint64(len(in))
	t.Out = append(t.Out, bytes.ToUpper(in)...)
	return len(in), 1, nil
}

func (p *shouting) Refuse(dst, _ []byte, why engine.Reason) []byte {
	return append(dst, "BYE "+why.String()...)
}

func (p *shouting) Ended(_ engine.Conn, state uint64, _ engine.Reason) { p.ended <- state }

// wrapped is a middleware's ResponseWriter.
type wrapped struct{ http.ResponseWriter }

func (w wrapped) Unwrap() http.ResponseWriter { return w.ResponseWriter }

const upgradeRequest = "GET /switch HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"

func TestSwitch(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		p := &shouting{ended: make(chan uint64, 1)}
		var states []http.ConnState
		told := make(chan http.ConnState, 10)
		s := serve(t, &Server{Engine: e, Std: &http.Server{ConnState: func(_ net.Conn, s http.ConnState) { told <- s }}, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/switch" {
				some(w, r)
				return
			}
			turn, err := Switch(wrapped{w}, p)
			if err != nil {
				t.Error(err)
				return
			}
			turn.Hold()
			turn.State = 1000
			turn.Out = append(turn.Out, "HTTP/1.1 101 Switching Protocols\r\n\r\n"...)
			if err := turn.Conn().Push([]byte("pushed ")); err != nil {
				t.Error(err)
			}
			if _, err := w.Write([]byte("a")); err != http.ErrHijacked {
				t.Errorf("Write after Switch: %v", err)
			}
		})})
		nc := s.dial(t)
		r := bufio.NewReader(nc)
		say(t, nc, getting("/")+upgradeRequest+"early ")
		readAnswer(t, r)
		want := "HTTP/1.1 101 Switching Protocols\r\n\r\npushed EARLY "
		other := "HTTP/1.1 101 Switching Protocols\r\n\r\nEARLY pushed "
		got := make([]byte, len(want))
		if _, err := io.ReadFull(r, got); err != nil || string(got) != want && string(got) != other {
			t.Fatalf("heard %q (%v), want %q", got, err, want)
		}
		say(t, nc, "late")
		if _, err := io.ReadFull(r, got[:4]); err != nil || string(got[:4]) != "LATE" {
			t.Fatalf("heard %q (%v)", got[:4], err)
		}
		done := make(chan error, 1)
		go func() { done <- s.Shutdown(t.Context()) }()
		if rest, err := io.ReadAll(r); err != nil || string(rest) != "BYE shutting_down" {
			t.Errorf("heard %q (%v) at the end", rest, err)
		}
		nc.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if state := <-p.ended; state != 1000+uint64(len("early late")) {
			t.Errorf("ended with state %d", state)
		}
		close(told)
		for s := range told {
			states = append(states, s)
		}
		if n := len(states); n == 0 || states[n-1] != http.StateHijacked {
			t.Errorf("ConnState heard %v", states)
		}
	})
}

// A connection that has switched and is idle belongs to the other protocol, with its limits.
func TestSwitchedConnectionsAreIdle(t *testing.T) {
	inFakeTime(t, func(t *testing.T, e engine.Engine, secure bool) {
		p := &shouting{ended: make(chan uint64, 1)}
		nc := dialFake(t, &Server{Engine: e, Limits: engine.Limits{IdleTime: time.Minute}, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := Switch(w, p); err != nil {
				t.Error(err)
			}
		})}, secure)
		say(t, nc, upgradeRequest)
		if rest, err := io.ReadAll(nc); err != nil || string(rest) != "BYE idle_timeout" {
			t.Errorf("heard %q (%v)", rest, err)
		}
		nc.Close() // otherwise the server lingers
		<-p.ended
	})
}

func TestSwitchUnsupported(t *testing.T) {
	if _, err := Switch(httptest.NewRecorder(), &shouting{}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("on another server: %v", err)
	}
	heard := make(chan error, 3)
	s := serve(t, &Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/late" {
			io.WriteString(w, strings.Repeat("a", 100_000))
		}
		_, err := Switch(w, &shouting{})
		heard <- err
	})})
	nc := s.dial(t)
	r := bufio.NewReader(nc)
	say(t, nc, getting("/late"))
	readAnswer(t, r)
	if err := <-heard; err == nil || errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("after a part of the answer: %v", err)
	}
	say(t, nc, "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
	readAnswer(t, r)
	if err := <-heard; !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("on loan: %v", err)
	}
}
