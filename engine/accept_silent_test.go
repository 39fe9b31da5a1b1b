package engine

import "testing"

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
			k.markSpoken()
		default:
			k.free()
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
		k.setAway(false)
		s.silent.push(50_000, k.conn())
	}
	k := s.bareConn()
	c := k.conn()
	k.free()
	b.ReportAllocs()
	for b.Loop() {
		s.silent.push(50_000, c)
	}
}
