package pool

import (
	"errors"
	"net"
	"testing"
	"time"
)

// stub is a connection of which only Close is called.
type stub struct {
	net.Conn
	closed bool
}

func (s *stub) Close() error { s.closed = true; return nil }

// stubs returns a pool of stubs, and its Get.
func stubs(t *testing.T) (*Pool, func() *Conn) {
	p := &Pool{MaxIdle: 1, MaxActive: 2, Dial: func() (net.Conn, error) { return new(stub), nil }}
	return p, func() *Conn {
		t.Helper()
		conn, err := p.Get()
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
}

func TestLimits(t *testing.T) {
	p, get := stubs(t)
	a, b := get(), get()
	if _, err := p.Get(); !errors.Is(err, ErrExhausted) {
		t.Error("MaxActive: ", err)
	}
	p.Put(a, false)
	p.Put(b, false)
	if !a.Conn.(*stub).closed || b.Conn.(*stub).closed {
		t.Error("MaxIdle: the one that was idle longest is not the closed one")
	}
	if got := get(); got != b || p.Dials.Load() != 2 {
		t.Error("the idle connection was not reused")
	}
	p.Put(b, true)
	if !b.Conn.(*stub).closed {
		t.Error("a broken connection was kept")
	}
	p.Put(get(), false)
	p.Close()
	if _, err := p.Get(); !errors.Is(err, ErrClosed) || p.active != 0 {
		t.Errorf("Close: %v, %d open", err, p.active)
	}
}

// A connection that the test refuses, or that is too old, is closed instead of lent.
func TestOnBorrow(t *testing.T) {
	p, get := stubs(t)
	for name, refuse := range map[string]func(){
		"TestOnBorrow":    func() { p.TestOnBorrow = func(net.Conn, time.Time) error { return errors.New("no") } },
		"IdleTimeout":     func() { p.TestOnBorrow, p.IdleTimeout = nil, 1 },
		"MaxConnLifetime": func() { p.TestOnBorrow, p.IdleTimeout, p.MaxConnLifetime = nil, 0, 1 },
	} {
		c := get()
		p.TestOnBorrow, p.IdleTimeout, p.MaxConnLifetime = nil, 0, 0
		p.Put(c, false)
		refuse()
		if got := get(); got == c || !c.Conn.(*stub).closed {
			t.Errorf("%s: it was lent", name)
		} else {
			p.Put(got, true)
		}
	}
}

// With Wait, Get waits for Put, and a failed dial takes nothing away from others.
func TestWait(t *testing.T) {
	fails := errors.New("no server")
	var dial error
	p := &Pool{MaxIdle: 1, MaxActive: 1, Wait: true, Dial: func() (net.Conn, error) { return new(stub), dial }}
	dial = fails
	if _, err := p.Get(); !errors.Is(err, fails) {
		t.Fatal(err)
	}
	dial = nil
	first, err := p.Get()
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan *Conn)
	go func() {
		conn, _ := p.Get()
		got <- conn
	}()
	p.Put(first, false)
	if conn := <-got; conn != first {
		t.Errorf("the one that waited got %v", conn)
	}
	p.Put(first, false)
	p.Close()
	for range 2 { // the article's pool has only one answer for each of its tokens
		if _, err := p.Get(); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	}
}
