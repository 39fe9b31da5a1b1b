//go:build linux

package streams

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/bench/streams/probe"
)

// TestLoans lends one connection again and again, between requests that are pipelined.
func TestLoans(t *testing.T) {
	const loans = 100
	path := program(t, "server")
	for _, engine := range engines() {
		t.Run(engine, func(t *testing.T) {
			s := start(t, path, "-engine", engine)
			c, r := dial(t, s.addr, 0)
			c.SetDeadline(time.Now().Add(time.Minute))
			var asks, want strings.Builder
			for i := range loans {
				fmt.Fprintf(&asks, "ping\nlend\nline %d\nping\n", i)
				fmt.Fprintf(&want, "pong\nlent line %d\npong\n", i)
			}
			began := time.Now()
			if _, err := c.Write([]byte(asks.String())); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(want.String()) {
				if got, err := r.ReadString('\n'); got != line {
					t.Fatalf("read %q, %v; want %q", got, err, line)
				}
			}
			t.Logf("%d loans and back, with 2 pipelined requests each: %v each", loans, time.Since(began)/loans)
		})
	}
}

// TestIdleAfterLoan has a connection that was lent once take as little memory as before.
func TestIdleAfterLoan(t *testing.T) {
	conns := size(500, 2000)
	path := program(t, "server")
	for _, engine := range engines() {
		t.Run(engine, func(t *testing.T) {
			s := start(t, path, "-engine", engine)
			crowd := make([]*stream, conns)
			each := func(line, answer string) {
				for i, one := range crowd {
					if err := ask(one.c, one.r, line, answer); err != nil {
						t.Fatalf("connection %d: %v", i, err)
					}
				}
				fleet.Wait(t.Context(), 4*time.Second) // they rest
			}
			for i := range crowd {
				c, r := dial(t, s.addr, 0)
				crowd[i] = &stream{c: c, r: r}
			}
			each("ping", "pong")
			before := s.heap(t, probe.Collect)
			each("lend\nx", "lent x")
			each("ping", "pong")
			after := s.heap(t, probe.Collect)
			bytes := float64(after-before) / float64(conns)
			if engine != "events" {
				t.Logf("%.0f bytes more for each of %d connections that were lent once", bytes, conns)
				return
			}
			judge(t, "heap in use of a connection that was lent once, beyond before", bytes, "%.0f bytes", "<=", 200)
		})
	}
}
