package engine

import (
	"net/netip"
	"testing"

	"github.com/hone-go/hone/engine/internal/timing"
	"github.com/hone-go/hone/internal/sys"
)

// The queue does not grow with connections that have ended or have sent something, and
// keeps the others in order.
func TestSilentLineStaysShort(t *testing.T) {
	s := bare(Limits{})
	sh := s.bareShard()
	var quiet []Conn
	for i := range 20 * fewSilent {
		k := taken(t, sh)
		switch i % 100 {
		case 0:
			quiet = append(quiet, k.conn())
		case 1:
			k.owner().markSpoken()
		default:
			k.owner().free()
		}
		if s.silent.push(50_000, k.conn()); len(s.silent.line) > 2*fewSilent {
			t.Fatalf("%d are queued after %d connections", len(s.silent.line), i+1)
		}
	}
	for _, want := range quiet {
		for {
			c, ok := s.silent.pop()
			if !ok {
				t.Fatal("a silent connection is not queued")
			}
			if c == want {
				break
			}
		}
	}
	if s.silent.push(Limits{Conns: -1}.OrDefaults().Conns, quiet[0]); len(s.silent.line) > 0 {
		if c, ok := s.silent.pop(); ok && c == quiet[0] {
			t.Error("connections are queued although their number is not limited")
		}
	}
}

// A newcomer that is refused at once is not displaced as well: two places would count as
// free for one connection that ends.
func TestRefusedNewcomerDoesNotMakeRoom(t *testing.T) {
	s := bare(Limits{Conns: 3})
	k := s.bareConn()
	s.open, s.excess = 4, 1
	if s.queueSilent(k.conn()); k.reason() != TooManyConns {
		t.Errorf("it ends for %v, want %v", k.reason(), TooManyConns)
	}
	if _, ok := s.silent.pop(); ok {
		t.Error("it is queued to be displaced")
	}
}

// A newcomer that is not refused in favour of another one can still be refused later.
func TestNewcomerIsNotedWhileOthersMakeRoom(t *testing.T) {
	s := bare(Limits{Conns: 3})
	k := s.bareConn()
	s.open, s.displacing, s.excess = 4, 1, 1 // the newcomer to refuse has left
	if s.queueSilent(k.conn()); k.reason() != 0 {
		t.Fatalf("it ends for %v, want nothing", k.reason())
	}
	if s.refuseNewcomer(); k.reason() != TooManyConns {
		t.Errorf("it ends for %v when the place is not freed, want %v", k.reason(), TooManyConns)
	}
}

// BenchmarkSilentLine is the cost per connection of the queue, with 50 000 queued.
func BenchmarkSilentLine(b *testing.B) {
	s := bare(Limits{})
	sh := s.bareShard()
	for range 50_000 {
		k, err := sh.take()
		if err != nil {
			b.Fatal(err)
		}
		k.held().setAway(false)
		s.silent.push(50_000, k.conn())
	}
	k := s.bareConn()
	c := k.conn()
	k.owner().free()
	b.ReportAllocs()
	for b.Loop() {
		s.silent.push(50_000, c)
	}
}

// always is a Protocol whose connections give way.
type always struct{ Protocol }

func (always) GivesWay() bool { return true }

// The longest idle give way first, and before them those from the newcomer's address; only
// a newcomer pays for a look, and only if the last look's findings are used up.
func TestLongestIdleGivesWayFirst(t *testing.T) {
	s := bare(Limits{Conns: 100})
	s.spoken.Store(&[]*spoken{newSpoken(always{})})
	f := newFlusher(s, 0)
	s.flushers = append(s.flushers, f)
	now := s.clock.Read() + 60_000
	s.clock.Set(now)
	mine, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	var all []connRef
	for i, one := range []struct {
		from netip.Addr
		age  timing.Tick
	}{{other, 10}, {mine, 5}, {other, 40}, {mine, 30}, {other, 20}} {
		k, err := f.take()
		if err != nil {
			t.Fatal(err)
		}
		k.owner().begin(netip.AddrPortFrom(one.from, uint16(i)), sys.NoSocket, nil, false, false)
		k.s.opened, k.s.spoken = true, true
		k.held().setAway(false)
		k.s.seen.Store(now - one.age*1000)
		k.s.mu.Unlock()
		all = append(all, k)
	}
	for i, want := range []int{3, 1, 2, 4, 0} {
		if !s.askIdlest(mine) {
			t.Fatalf("nobody makes room for newcomer %d", i)
		}
		for j, k := range all {
			if asked := k.s.displaced; asked && j != want {
				t.Errorf("connection %d makes room for newcomer %d, want %d", j, i, want)
			}
			k.s.displaced = false
		}
		all[want].s.spoken = false // it does not give way any more
	}
	if s.askIdlest(mine) {
		t.Error("somebody makes room again")
	}
	s.idlers.forget(now+3*s.rules.Period, s.rules.Period)
	s.idlers.forget(now+5*s.rules.Period, s.rules.Period)
	if s.idlers.found != nil || s.idlers.first != nil {
		t.Error("the findings of a look are kept for ever")
	}
}

// BenchmarkLook is the cost of a look at 50 000 idle connections.
func BenchmarkLook(b *testing.B) {
	s := bare(Limits{})
	s.spoken.Store(&[]*spoken{newSpoken(always{})})
	f := newFlusher(s, 0)
	s.flushers = append(s.flushers, f)
	for i := range 50_000 {
		k, err := f.take()
		if err != nil {
			b.Fatal(err)
		}
		k.owner().begin(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 10), byte(i)}), 1), sys.NoSocket, nil, false, false)
		k.s.opened, k.s.spoken = true, true
		k.held().setAway(false)
		k.s.seen.Store(uint32(i*7919) % 60_000)
		k.s.mu.Unlock()
	}
	for b.Loop() {
		if !s.idlers.look(s) {
			b.Fatal("nobody was found")
		}
	}
}
