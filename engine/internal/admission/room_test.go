package admission

import (
	"math"
	"net/netip"
	"testing"

	"github.com/hone-go/hone/engine/internal/timing"
)

// The queue does not grow with connections that have ended or have sent something, and keeps the
// others in order.
func TestSilentStaysShort(t *testing.T) {
	var l Silent[int]
	isSilent := func(n int) bool { return n%100 == 0 }
	for i := range 20 * fewSilent {
		if l.Push(50_000, i, isSilent); len(l.line) > 2*fewSilent {
			t.Fatalf("%d are queued after %d connections", len(l.line), i+1)
		}
	}
	for want := 0; want < 20*fewSilent; want += 100 {
		for {
			n, ok := l.Pop()
			if !ok {
				t.Fatalf("connection %d is not queued", want)
			}
			if n == want {
				break
			}
		}
	}
	unlimited := Silent[int]{}
	if unlimited.Push(math.MaxInt32, 1, isSilent); len(unlimited.line) > 0 {
		t.Error("connections are queued although their number is not limited")
	}
}

// BenchmarkSilent is the cost per connection of the queue, with 50 000 queued.
func BenchmarkSilent(b *testing.B) {
	var l Silent[int]
	isSilent := func(n int) bool { return n > 0 }
	for range 50_000 {
		l.Push(50_000, 1, isSilent)
	}
	b.ReportAllocs()
	for b.Loop() {
		l.Push(50_000, 0, isSilent)
	}
}

// The longest idle come first, and before them those from the host; only a newcomer pays for a
// look, and only if the last look's findings are used up, which are not kept for ever.
func TestIdlersAreFoundInOrder(t *testing.T) {
	var clock timing.Clock
	clock.Init()
	now := clock.Read() + 60_000
	clock.Set(now)
	mine, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	looks := 0
	look := func(found []Idler[int]) []Idler[int] {
		looks++
		for i, one := range []struct {
			from netip.Addr
			age  timing.Tick
		}{{other, 10}, {mine, 5}, {other, 40}, {mine, 30}, {other, 20}} {
			found = append(found, Idler[int]{Conn: i, Host: one.from, Seen: now - one.age*1000})
		}
		found = append(found, Idler[int]{Conn: 5, Host: other, Seen: now + 1}) // during the look
		return found
	}
	var l Idlers[int]
	looked := false
	for _, want := range []int{3, 1, 2, 3, 4, 0, 1, 5} { // those of the host are found again
		if one, ok := l.Pop(mine, &clock, 1, &looked, look); !ok || one.Conn != want {
			t.Fatalf("found %d, %v, want %d", one.Conn, ok, want)
		}
	}
	if one, ok := l.Pop(mine, &clock, 1, &looked, look); ok || looks != 1 {
		t.Errorf("found %d again; %d looks", one.Conn, looks)
	}
	l.Forget(now+3000, 1000)
	if l.first == nil {
		t.Error("the findings of a look are dropped at once")
	}
	if l.Forget(now+5000, 1000); l.found != nil || l.first != nil {
		t.Error("the findings of a look are kept for ever")
	}
}

// All addresses of one IPv6 /64 share a limit.
func TestAddresses(t *testing.T) {
	var a Addresses
	a.Init(1, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")})
	count := func(addr string) (may, counted bool) {
		may = a.Count(netip.MustParseAddr(addr), &counted)
		return may, counted
	}
	for _, x := range []struct {
		addr         string
		may, counted bool
	}{
		{"192.0.2.1", true, true}, {"192.0.2.1", false, false}, {"192.0.2.2", true, true},
		{"2001:db8::1", true, true}, {"2001:db8::ffff:2", false, false}, {"2001:db8:0:1::1", true, true},
		{"10.1.2.3", true, false}, {"10.1.2.3", true, false},
	} {
		if may, counted := count(x.addr); may != x.may || counted != x.counted {
			t.Errorf("%s: %v, counted %v", x.addr, may, counted)
		}
	}
	a.Uncount(netip.MustParseAddr("2001:db8::9"))
	if may, _ := count("2001:db8::3"); !may || a.Len() != 4 {
		t.Errorf("an ended connection still counts; %d hosts", a.Len())
	}
}
