package lab

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
)

// TestCouriersDeliver checks that every client makes every request, and that pools dial
// no more than once per borrower, except the article's pool with MaxIdle.
func TestCouriersDeliver(t *testing.T) {
	s := startStage(t, "upper")
	for name, start := range couriers(s.addr, 20, 2) {
		c := start()
		var asked atomic.Int64
		request := c.request
		c.request = func(ctx context.Context) error {
			asked.Add(1)
			return request(ctx)
		}
		if _, err := deliver(t.Context(), c, 20, 500); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if asked.Load() != 500 {
			t.Errorf("%s: %d requests", name, asked.Load())
		}
		if n := c.dials(); n < 1 || name != "article" && n > 20 {
			t.Errorf("%s dialled %d times for 20 borrowers", name, n)
		}
		if err := c.close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDeliverEndsWithTheFirstError checks that deliver returns at the first error, even
// with workers still waiting.
func TestDeliverEndsWithTheFirstError(t *testing.T) {
	broken := errors.New("broken")
	var asked atomic.Int64
	c := &courier{request: func(context.Context) error {
		if asked.Add(1) == 10 {
			return broken
		}
		return nil
	}}
	if _, err := deliver(t.Context(), c, 4, 1_000_000); !errors.Is(err, broken) {
		t.Errorf("it ended with %v", err)
	}
}

// TestMaxIdleCloses checks that a connection returned while enough are idle closes one,
// and that MaxActive refuses. It steps by hand, so that chance plays no part.
func TestMaxIdleCloses(t *testing.T) {
	p := &borrowed{most: 3, mostIdle: 1, idleTime: patience, dial: func() (net.Conn, error) {
		a, b := net.Pipe()
		b.Close()
		return a, nil
	}}
	for range 2 {
		var lent []net.Conn
		for range 3 {
			conn, err := p.get()
			if err != nil {
				t.Fatal(err)
			}
			lent = append(lent, conn)
		}
		if _, err := p.get(); !errors.Is(err, errExhausted) {
			t.Errorf("a fourth of three: %v", err)
		}
		for _, conn := range lent {
			p.put(conn, false)
		}
	}
	if p.dials != 5 || p.active != 1 || len(p.idle) != 1 {
		t.Errorf("%d dials, %d open, %d idle; want 3 and then 2 more, 1, 1", p.dials, p.active, len(p.idle))
	}
	p.close()
}
