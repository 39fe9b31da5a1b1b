package framed_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
)

// outcome is the result of a Shutdown.
type outcome struct {
	engine.Drained
	err error
}

// shutdown starts a Shutdown and returns a channel for its result.
func shutdown(ctx context.Context, s *framed.Server) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		err := s.Shutdown(ctx)
		done <- outcome{s.Stats().Drained, err}
	}()
	return done
}

// drained checks a Shutdown that forced nothing.
func drained(t *testing.T, done <-chan outcome, clean int) {
	t.Helper()
	if got, want := heard(t, done, "Shutdown"), (outcome{Drained: engine.Drained{Clean: clean}}); got != want {
		t.Errorf("Shutdown ended with %+v, want %+v", got, want)
	}
}

func TestServeAfterShutdown(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo)}
		drained(t, shutdown(context.Background(), s), 0) // one that has never served
		for range 2 {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Serve(ln); err != framed.ErrServerClosed {
				t.Errorf("Serve after Shutdown returned %v, want ErrServerClosed", err)
			}
			if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("the listener returned %v, want it closed", err)
			}
		}
		s = &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo)}
		s.Close()
		s.Addr = "127.0.0.1:0"
		if err := s.ListenAndServe(); err != framed.ErrServerClosed {
			t.Errorf("ListenAndServe after Close returned %v, want ErrServerClosed", err)
		}
	})
}

// TestZeroServerCanBeClosed: cleaning up after a failed set-up needs no condition.
// Serving without a Handler still panics.
func TestZeroServerCanBeClosed(t *testing.T) {
	for name, end := range map[string]func(*framed.Server) error{
		"Close":    (*framed.Server).Close,
		"Shutdown": func(s *framed.Server) error { return s.Shutdown(t.Context()) },
	} {
		s := new(framed.Server)
		for range 2 {
			if err := end(s); err != nil {
				t.Errorf("%s of a zero Server returned %v", name, err)
			}
		}
		if got := s.Stats(); got.Open != 0 || got.Drained != (engine.Drained{}) {
			t.Errorf("after %s a zero Server counts %+v", name, got)
		}
	}
	ln := listenTCP(t)
	defer ln.Close()
	for name, serve := range map[string]func(*framed.Server) error{
		"Serve":          func(s *framed.Server) error { return s.Serve(ln) },
		"ListenAndServe": (*framed.Server).ListenAndServe,
	} {
		func() {
			s := &framed.Server{Addr: "127.0.0.1:0"}
			defer s.Close()
			defer func() {
				if got, want := fmt.Sprint(recover()), "framed: Server.Handler is nil"; got != want {
					t.Errorf("%s without a Handler panics with %q, want %q", name, got, want)
				}
			}()
			serve(s)
		}()
	}
}
