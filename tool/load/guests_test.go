package load

import (
	"errors"
	"testing"
)

// Guests stay as many as were asked for, and none is let in whose answer is another.
func TestGuests(t *testing.T) {
	p := Plan{Target: echoServer(t, "tcp"), Echo: true}
	var g Guests
	for _, n := range []int{3, 40, 40} {
		if err := g.UpTo(t.Context(), p, n); err != nil || len(g.open) != n {
			t.Fatalf("%d of %d: %v", len(g.open), n, err)
		}
	}
	p.Echo, p.Expect = false, []byte("something else")
	if end, err := new(Error), g.UpTo(t.Context(), p, 41); !errors.As(err, &end) || end.Kind != WrongContent || len(g.open) != 40 {
		t.Errorf("%d are open: %v", len(g.open), err)
	}
	g.Leave()
	if len(g.open) != 0 {
		t.Errorf("%d are left", len(g.open))
	}
}
