package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hone-go/hone/conns"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience limits everything that a test waits for.
const patience = 20 * time.Second

// shout answers lines in upper case, and closes the connection on "hush".
func shout(t *testing.T) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			served.Go(func() {
				defer nc.Close()
				for lines := bufio.NewScanner(nc); lines.Scan(); {
					if lines.Text() == "hush" {
						return
					}
					fmt.Fprintln(nc, strings.ToUpper(lines.Text()))
				}
			})
		}
	})
	t.Cleanup(func() { ln.Close(); served.Wait() })
	return ln.Addr().String()
}

func TestAsk(t *testing.T) {
	addr := shout(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	pool := newPool(addr)
	defer pool.Close(ctx)
	var askers sync.WaitGroup
	for n := range 50 {
		askers.Go(func() {
			want := fmt.Sprintf("LINE %d\n", n)
			if got, err := ask(ctx, pool, strings.ToLower(want[:len(want)-1])); got != want || err != nil {
				t.Errorf("%q, %v; want %q", got, err, want)
			}
		})
	}
	askers.Wait()
	if st := pool.Stats(); st.Dials > 8 || st.InUse != 0 {
		t.Errorf("%d dials, %d lent; want 8 at most, and none", st.Dials, st.InUse)
	}
}

// The pool can check a session before it lends it.
var _ syscall.Conn = (*session)(nil)

// A connection that failed is not lent again.
func TestBrokenConnection(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	pool := newPool(shout(t))
	defer pool.Close(ctx)
	if got, err := ask(ctx, pool, "hush"); !errors.Is(err, io.EOF) {
		t.Errorf("%q, %v; want EOF", got, err)
	}
	for range 2 {
		if got, err := ask(ctx, pool, "hello"); got != "HELLO\n" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
	if st := pool.Stats(); st.Dials != 2 || st.Closed[conns.Discarded] != 1 {
		t.Errorf("%d dials and %v closed, want 2, and 1 discarded", st.Dials, st.Closed)
	}
}
