package admission

import (
	"net/netip"
	"slices"
	"testing"
)

// Hosts take turns in rotation, whatever each of them asks for, and those that had a turn before
// come first. Of a host, the newest and the oldest do.
func TestTurnsRotate(t *testing.T) {
	a, b, c := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.3")
	var turns Turns[string]
	turns.Init(2)
	for _, who := range []string{"a1", "a2"} {
		if !turns.Take(a, who, false) {
			t.Fatalf("%s waits although a turn is free", who)
		}
	}
	for _, who := range []string{"a3", "a4", "a5", "a6"} {
		if turns.Take(a, who, false) {
			t.Fatalf("%s has a third turn of two", who)
		}
	}
	turns.Take(b, "b1", false)
	turns.Take(b, "b2", false)
	turns.Take(a, "a1 again", true)
	turns.Take(c, "c1", false)
	var order []string
	for range 8 {
		next, waits := turns.Pass()
		if !waits {
			t.Fatalf("nobody waits after %v", order)
		}
		order = append(order, next)
	}
	if want := []string{"a1 again", "a3", "b2", "c1", "a6", "b1", "a5", "a4"}; !slices.Equal(order, want) {
		t.Errorf("the order is %v, want %v", order, want)
	}
	for range 2 {
		if next, waits := turns.Pass(); waits {
			t.Errorf("%s waits", next)
		}
	}
	for range 2 {
		if !turns.Take(a, "a7", false) {
			t.Error("a turn was lost")
		}
	}
	if turns.Take(a, "a8", false) {
		t.Error("there are more turns than at the start")
	}
	if len(turns.line) != 1 || len(turns.hosts) != 1 {
		t.Errorf("%d hosts are left in %v", len(turns.line), turns.hosts)
	}
}
