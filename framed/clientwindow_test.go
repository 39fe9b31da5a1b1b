package framed_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hone-go/hone/framed"
)

// callEnd is the result of one call.
type callEnd struct {
	reply string
	err   error
}

// call calls in a goroutine and returns when all goroutines block.
func (s script) call(ctx context.Context, content string) <-chan callEnd {
	ended := make(chan callEnd, 1)
	go func() {
		reply, err := s.c.Call(ctx, nil, []byte(content))
		ended <- callEnd{string(reply), err}
	}()
	synctest.Wait()
	return ended
}

// wantNext reads a request and checks its content.
func (s script) wantNext(content string) (id uint64) {
	s.t.Helper()
	p := s.packet()
	if string(p.Content) != content {
		s.t.Errorf("the server got %q, want %q", p.Content, content)
	}
	return p.ID
}

// quietly fails when the server gets anything within an hour.
func (s script) quietly() {
	s.t.Helper()
	s.SetReadDeadline(time.Now().Add(time.Hour))
	if p, err := s.tryPacket(); err == nil {
		s.t.Errorf("the server got %q while the window was full", p.Content)
	}
	s.SetReadDeadline(time.Time{})
}

func TestClientWindowIsServedInOrder(t *testing.T) {
	bubble(t, framed.ClientOptions{Window: 2}, func(t *testing.T, s script) {
		var calls []<-chan callEnd
		for i := range 6 {
			calls = append(calls, s.call(t.Context(), fmt.Sprint(i)))
		}
		ids := []uint64{s.wantNext("0"), s.wantNext("1")}
		for i := range 4 {
			s.quietly()
			s.send(ack(ids[i], fmt.Sprint(i)))
			ids = append(ids, s.wantNext(fmt.Sprint(i+2)))
		}
		for i := 4; i < 6; i++ {
			s.send(ack(ids[i], fmt.Sprint(i)))
		}
		for i, ended := range calls {
			if o := <-ended; o.err != nil || o.reply != fmt.Sprint(i) {
				t.Errorf("call %d ended with %q and %v", i, o.reply, o.err)
			}
		}
	})
}

// A request whose caller has given up stays in flight, because the server still works on
// it.
func TestClientRequestGivenUpKeepsItsPlaceInTheWindow(t *testing.T) {
	bubble(t, framed.ClientOptions{Window: 1}, func(t *testing.T, s script) {
		ctx, cancel := context.WithCancel(t.Context())
		first := s.call(ctx, "first")
		id := s.wantNext("first")
		cancel()
		if o := <-first; o.err != context.Canceled {
			t.Errorf("the abandoned call returned %v", o.err)
		}
		second := s.call(t.Context(), "second")
		s.quietly()
		s.send(ack(id, "late"))
		s.send(ack(s.wantNext("second"), "in time"))
		if o := <-second; o.err != nil || o.reply != "in time" {
			t.Errorf("the next call ended with %q and %v", o.reply, o.err)
		}
	})
}

func TestClientCallGivenUpBeforeItsTurnIsNotSent(t *testing.T) {
	for _, leaver := range []int{1, 2, 3} { // the first, the middle and the last waiting call
		bubble(t, framed.ClientOptions{Window: 1}, func(t *testing.T, s script) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var calls []<-chan callEnd
			for i := range 4 {
				of := t.Context()
				if i == leaver {
					of = ctx
				}
				calls = append(calls, s.call(of, fmt.Sprint(i)))
			}
			cancel()
			if o := <-calls[leaver]; !errors.Is(o.err, framed.ErrNotSent) || !errors.Is(o.err, context.Canceled) {
				t.Errorf("call %d returned %v", leaver, o.err)
			}
			for i, ended := range calls {
				if i == leaver {
					continue
				}
				s.send(ack(s.wantNext(fmt.Sprint(i)), "done"))
				if o := <-ended; o.err != nil {
					t.Errorf("call %d returned %v", i, o.err)
				}
			}
		})
	}
}

// When a connection ends, requests that were sent may have been executed; those queued
// for the writer, and those waiting for room, were not. For what the writer is writing
// either may be reported: the reader may detect the end first.
func TestClientSaysWhatWasNotSent(t *testing.T) {
	bubble(t, framed.ClientOptions{Window: 3}, func(t *testing.T, s script) {
		var calls []<-chan callEnd
		for i := range 5 { // only the first is read: the writer holds the second alone
			calls = append(calls, s.call(t.Context(), fmt.Sprint(i)))
			if i == 0 {
				s.wantNext("0")
			}
		}
		s.Close()
		for i, ended := range calls {
			o := <-ended
			wantClosed(t, "a call", o.err, framed.ErrClosed)
			if unsent := errors.Is(o.err, framed.ErrNotSent); unsent != (i > 0) && i != 1 {
				t.Errorf("call %d returned %v", i, o.err)
			}
		}
		if _, err := s.c.Call(t.Context(), nil, nil); !errors.Is(err, framed.ErrNotSent) {
			t.Errorf("a later call returned %v", err)
		}
	})
}

// Calls leave the queue in every possible way at once, and every call ends.
func TestClientWindowUnderCancels(t *testing.T) {
	bubble(t, framed.ClientOptions{Window: 3}, func(t *testing.T, s script) {
		const calls = 500
		ends := make(chan callEnd, calls)
		for i := range calls {
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%7)*time.Second)
				defer cancel()
				reply, err := s.c.Call(ctx, nil, fmt.Append(nil, i))
				if err == nil && string(reply) != fmt.Sprint(i) {
					t.Errorf("call %d was answered with %q", i, reply)
				}
				ends <- callEnd{string(reply), err}
			}()
		}
		go func() {
			for {
				p, err := s.tryPacket()
				if err != nil {
					return
				}
				<-time.After(50 * time.Millisecond)
				if _, err := s.Write(ack(p.ID, string(p.Content))); err != nil {
					return
				}
			}
		}()
		answered, given := 0, 0
		for range calls {
			switch o := <-ends; {
			case o.err == nil:
				answered++
			case errors.Is(o.err, context.DeadlineExceeded):
				given++
			default:
				t.Errorf("a call returned %v", o.err)
			}
		}
		if answered == 0 || given == 0 {
			t.Errorf("%d answered and %d given up; want some of both", answered, given)
		}
		last := s.call(t.Context(), "after all")
		if o := <-last; o.reply != "after all" {
			t.Errorf("the last call ended with %q and %v", o.reply, o.err)
		}
		s.c.Close()
	})
}
