package engine

import (
	"net/netip"
	"testing"

	"github.com/hone-go/hone/engine/internal/admission"
	"github.com/hone-go/hone/engine/internal/timing"
	"github.com/hone-go/hone/internal/sys"
)

// A newcomer that is refused at once is not displaced as well: two places would count as
// free for one connection that ends.
func TestRefusedNewcomerDoesNotMakeRoom(t *testing.T) {
	s := bare(Limits{Conns: 3})
	k := s.bareConn()
	s.places.taken, s.places.excess = 4, 1
	if s.queueSilent(k.conn(), true); k.reason() != TooManyConns {
		t.Errorf("it ends for %v, want %v", k.reason(), TooManyConns)
	}
	if _, ok := s.silent.Pop(); ok {
		t.Error("it is queued to be displaced")
	}
}

// A newcomer that is not refused in favour of another one can still be refused later.
func TestNewcomerIsNotedWhileOthersMakeRoom(t *testing.T) {
	s := bare(Limits{Conns: 3})
	k := s.bareConn()
	s.places.taken, s.places.displacing, s.places.excess = 3, 1, 1 // the newcomer to refuse has left
	if s.queueSilent(k.conn(), true); k.reason() != 0 {
		t.Fatalf("it ends for %v, want nothing", k.reason())
	}
	if s.places.refuseNewcomer(3); k.reason() != TooManyConns {
		t.Errorf("it ends for %v when the place is not freed, want %v", k.reason(), TooManyConns)
	}
}

// The only silent connection may be the one for which a place was to become free. If that place stays
// taken, it is refused, and told so, instead of being displaced without a word.
func TestNewcomerIsNotDisplacedForItself(t *testing.T) {
	s := bare(Limits{Conns: 1})
	older := s.bareConn()
	s.places.taken, s.places.displacing = 1, 1
	older.s.facets.set(isDisplaced)
	newcomer := s.bareConn()
	s.queueSilent(newcomer.conn(), true)
	if older.owner().markSpoken(); newcomer.s.facets.has(isDisplaced) || newcomer.reason() != TooManyConns {
		t.Errorf("it is displaced: %v, and ends for %v, want %v", newcomer.s.facets.has(isDisplaced), newcomer.reason(), TooManyConns)
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
	f := newFlusher(s)
	s.flushers = append(s.flushers, f)
	now := s.clock.Read() + 60_000
	s.clock.Set(now)
	mine, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	var all []connRef
	for i, one := range []struct {
		from netip.Addr
		age  timing.Tick
	}{{other, 10}, {mine, 5}, {other, 40}, {mine, 30}, {other, 20}} {
		k, why := f.take()
		if why != 0 {
			t.Fatal(why)
		}
		k.owner().begin(&arrival{from: netip.AddrPortFrom(one.from, uint16(i))}, sys.NoSocket, nil)
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
			if asked := k.s.facets.has(isDisplaced); asked && j != want {
				t.Errorf("connection %d makes room for newcomer %d, want %d", j, i, want)
			}
			k.s.facets.clear(isDisplaced)
		}
		all[want].s.spoken = false // it does not give way any more
	}
	if s.askIdlest(mine) {
		t.Error("somebody makes room again")
	}
}

// BenchmarkLook is the cost of a look at 50 000 idle connections.
func BenchmarkLook(b *testing.B) {
	s := bare(Limits{})
	s.spoken.Store(&[]*spoken{newSpoken(always{})})
	f := newFlusher(s)
	s.flushers = append(s.flushers, f)
	for i := range 50_000 {
		k, why := f.take()
		if why != 0 {
			b.Fatal(why)
		}
		k.owner().begin(&arrival{from: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 10), byte(i)}), 1)}, sys.NoSocket, nil)
		k.s.opened, k.s.spoken = true, true
		k.held().setAway(false)
		k.s.seen.Store(uint32(i*7919) % 60_000)
		k.s.mu.Unlock()
	}
	for b.Loop() {
		s.idlers = admission.Idlers[Conn]{}
		looked := false
		if _, ok := s.idlers.Pop(netip.Addr{}, &s.clock, 0, &looked, s.findIdle); !ok {
			b.Fatal("nobody was found")
		}
	}
}

// Whoever looks for a connection to displace reads nothing that belongs to the connections' owners
// (the race detector decides), and no connection with unserved input gives way.
func TestALookReadsNothingOfTheOwners(t *testing.T) {
	s := bare(Limits{Conns: 100})
	s.spoken.Store(&[]*spoken{newSpoken(always{})})
	f := newFlusher(s)
	s.flushers = append(s.flushers, f)
	k, why := f.take()
	if why != 0 {
		t.Fatal(why)
	}
	k.owner().begin(&arrival{}, sys.NoSocket, nil)
	k.s.opened, k.s.spoken = true, true
	k.held().setAway(false)
	k.s.mu.Unlock()
	d := &workspace{in: make([]byte, 64), ref: k}
	owned := make(chan struct{})
	go func() {
		defer close(owned)
		for range 2_000 { // a message arrives in two parts
			k.owner().unpack(d)
			d.box.Arrived(len(d.box.Space(&s.input)[:1]))
			d.box.Served(0, 1)
			k.owner().pack(d)
			k.owner().unpack(d)
			d.box.Served(1, 1)
			k.owner().pack(d)
		}
		k.owner().unpack(d)
		d.box.Arrived(len(d.box.Space(&s.input)[:1]))
		k.owner().pack(d)
	}()
	for looking := true; looking; {
		select {
		case <-owned:
			looking = false
		default:
			s.findIdle(nil)
		}
	}
	if found := s.findIdle(nil); len(found) > 0 {
		t.Error("a connection with unserved input gives way")
	}
	k.s.mu.Lock()
	if k.held().makeRoom(d); k.reason() != 0 {
		t.Errorf("a connection with unserved input ends for %v", k.reason())
	}
}
