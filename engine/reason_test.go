package engine

import (
	"testing"

	"github.com/hone-go/hone/engine/internal/life"
)

// What each reason means for the life cycle. All others are told to the peer, a protocol's own
// included.
func TestKindsOfReasons(t *testing.T) {
	kinds := map[Reason]life.Kind{
		0: life.Lives, PeerClosed: life.Left, ShuttingDown: life.Draining, Displaced: life.Displaced,
		TooLarge: life.Told, Malformed: life.Told, UnknownCommand: life.Told, Panicked: life.Told, ClosedHere: life.Told,
	}
	for r := range Own + mostOwn {
		want, known := kinds[r]
		if !known {
			want = life.Untold
		}
		if got := r.kind(); got != want {
			t.Errorf("%v is of kind %d, want %d", r, got, want)
		}
		if ends(r) != (r != 0 && r != ShuttingDown) {
			t.Errorf("%v ends the service: %v", r, ends(r))
		}
	}
}
