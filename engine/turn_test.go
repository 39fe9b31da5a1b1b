package engine

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"testing"
)

// The zero Turn serves to test a protocol with plain values.
func TestZeroTurn(t *testing.T) {
	var turn Turn
	for range 10_000 {
		if !turn.Room() {
			t.Fatal("no room")
		}
	}
	turn.Out = append(turn.Out, "first"...)
	turn.Mark(5)
	turn.Out = append(turn.Out, "half a reply"...)
	r := turn.Later()
	if turn.Promised() != 1 {
		t.Errorf("promised %d after one Later", turn.Promised())
	}
	turn.Rollback()
	if string(turn.Out) != "first" {
		t.Errorf("rolled back to %q", turn.Out)
	}
	if turn.Promised() != 0 {
		t.Errorf("%d still promised after Rollback", turn.Promised())
	}
	turn.Mark(7)
	if turn.Promised() != 0 {
		t.Errorf("%d promised after Mark", turn.Promised())
	}
	if err := r.Send([]byte("x")); err != ErrClosed {
		t.Errorf("its Reply returned %v, want ErrClosed", err)
	}
	if err := turn.TakeOver(forGood(func(net.Conn, []byte) {})); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("TakeOver returned %v, want ErrUnsupported", err)
	}
	if turn.Conn() != (Conn{}) || r.Conn() != (Conn{}) {
		t.Error("its Conn is not the zero Conn")
	}
}

func TestZeroConn(t *testing.T) {
	var c Conn
	if err := c.Push([]byte("x")); err != ErrClosed {
		t.Errorf("Push returned %v, want ErrClosed", err)
	}
	c.Close(ClosedHere)
	c.SetValue(1)
	if c.Value() != nil || c.RemoteAddr() != (netip.AddrPort{}) {
		t.Errorf("value %v, address %v; want none", c.Value(), c.RemoteAddr())
	}
	if err := (Reply{}).Send(); err != ErrClosed {
		t.Errorf("Send returned %v, want ErrClosed", err)
	}
}

// owed returns how many replies the connection owes.
func (k *connRef) owed() int { return int(k.x.Load().promises.Open()) }

func TestSerialChanges(t *testing.T) {
	var turn Turn
	c := bare(Limits{}).bareConn()
	seen := map[uint32]string{}
	see := func(what string) {
		if before, ok := seen[turn.Serial()]; ok {
			t.Errorf("%s has the serial of %s", what, before)
		}
		seen[turn.Serial()] = what
	}
	see("the zero turn")
	for range 3 {
		turn.begin(&workspace{ref: *c})
		see("a visit")
		turn.Mark(0)
		see("its first message")
		turn.Mark(1)
		see("its second message")
		turn.end(0)
		see("its end")
	}
}

func TestTurnKeepsState(t *testing.T) {
	s := bare(Limits{})
	a, b := s.bareConn(), s.bareConn()
	var turn Turn
	for i := range uint64(3) {
		for j, c := range []*connRef{a, b} {
			turn.begin(&workspace{ref: *c})
			if want := i * uint64(10+j); turn.State != want {
				t.Errorf("state %d on connection %d, want %d", turn.State, j, want)
			}
			turn.State += uint64(10 + j)
			turn.end(0)
		}
	}
}

// A visit inherits nothing from the one before it, which may have been another
// connection's: a socket that was promised, for example.
func TestTurnIsCleared(t *testing.T) {
	d := &workspace{ref: *bare(Limits{}).bareConn()}
	old := Turn{
		Out: []byte{}, State: 1, ref: &d.ref, granted: 1, left: 1, full: 1, refused: true, requests: 1, promised: []uint64{1},
		later: 1, spare: [mostSpare]uint64{1}, spares: 1, room: true, serial: 1, mark: struct{ out, used int }{1, 1},
		takeOver: forGood(func(net.Conn, []byte) {}), becomes: 1, d: d, watched: true, yields: 1, largest: 1,
		flushed: true, moved: true, owed: 1, within: 1,
	}
	for i := range reflect.TypeFor[Turn]().NumField() {
		if reflect.ValueOf(old).Field(i).IsZero() {
			t.Errorf("the test does not set %s", reflect.TypeFor[Turn]().Field(i).Name)
		}
	}
	var fresh Turn
	fresh.begin(d)
	old.begin(d)
	for i := range reflect.TypeFor[Turn]().NumField() {
		name := reflect.TypeFor[Turn]().Field(i).Name
		if slices.Contains([]string{
			"Out",           // emptied when it is written
			"spare", "room", // not in use without spares
			"serial",  // continues
			"watched", // ends with the visit
		}, name) {
			continue
		}
		if want, got := fmt.Sprint(reflect.ValueOf(fresh).Field(i)), fmt.Sprint(reflect.ValueOf(old).Field(i)); got != want {
			t.Errorf("%s is %s in a Turn that is used again, and %s in a fresh one", name, got, want)
		}
	}
}

func TestTurnRoom(t *testing.T) {
	s := bare(Limits{HighWater: 100, InFlight: 2})
	c := s.bareConn()
	var turn Turn
	begin := func() { turn.Out = turn.Out[:0]; turn.begin(&workspace{ref: *c}) }

	begin()
	if !turn.Room() {
		t.Error("no room at the beginning")
	}
	turn.Out = append(turn.Out, make([]byte, 100)...)
	if turn.Room() || !turn.refused {
		t.Error("room above HighWater")
	}
	turn.end(0)

	begin()
	turn.Mark(0)
	first := turn.Later()
	if !turn.Room() {
		t.Error("no room for a second late reply of two")
	}
	turn.Mark(1)
	turn.Later()
	if turn.Room() {
		t.Error("room for a third late reply of two")
	}
	turn.end(0)
	if err := first.Send(); err != nil {
		t.Error(err)
	}
	begin()
	if !turn.Room() {
		t.Error("no room although a reply was sent")
	}
	turn.end(0)

	begin()
	turn.left = 1 // as in a drain
	if !turn.Room() || turn.Room() {
		t.Error("want room for exactly one message per visit")
	}
	turn.end(0)
}

func TestRollbackTakesPromisesBack(t *testing.T) {
	s := bare(Limits{})
	c := s.bareConn()
	var turn Turn
	owed := func() int { return c.owed() - turn.spares } // unused tickets are returned with the output
	turn.begin(&workspace{ref: *c})
	turn.Mark(0)
	kept := turn.Later()
	turn.Out = append(turn.Out, "kept"...)
	turn.Mark(10)
	lost, lost2 := turn.Later(), turn.Later()
	turn.Out = append(turn.Out, "lost"...)
	if turn.Promised() != 2 || owed() != 3 {
		t.Errorf("promised %d, owed %d; want 2 and 3", turn.Promised(), owed())
	}
	turn.Rollback()
	if string(turn.Out) != "kept" || turn.Promised() != 0 || owed() != 1 {
		t.Errorf("after Rollback: %q, promised %d, owed %d", turn.Out, turn.Promised(), owed())
	}
	turn.Rollback() // idempotent
	turn.end(0)
	for _, r := range []Reply{lost, lost2} {
		if err := r.Send([]byte("x")); err != ErrSettled {
			t.Errorf("a revoked reply returned %v, want ErrSettled", err)
		}
	}
	if err := kept.Send([]byte("x")); err != nil || owed() != 0 {
		t.Errorf("the other: %v, owed %d", err, owed())
	}
	if err := kept.Send([]byte("x")); err != ErrSettled {
		t.Errorf("sent twice: %v, want ErrSettled", err)
	}
	if got := c.sh.counts.requests.Load(); got != 2 {
		t.Errorf("counted %d requests, want 2", got)
	}
}

func TestTurnAllocates0(t *testing.T) {
	d := &workspace{ref: *bare(Limits{}).bareConn()}
	var turn Turn
	var replies [8]Reply
	for name, f := range map[string]func(){
		"visit": func() {
			turn.begin(d)
			for turn.Room() && turn.requests < 16 {
				turn.Mark(0)
			}
			turn.end(0)
		},
		"visit with promises": func() {
			turn.begin(d)
			for i := range replies {
				turn.Mark(i)
				replies[i] = turn.Later()
			}
			turn.end(0)
			for _, r := range replies {
				r.Send()
			}
		},
		"rollback": func() {
			turn.begin(d)
			turn.Mark(0)
			turn.Later()
			turn.Rollback()
			turn.end(0)
		},
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
}
