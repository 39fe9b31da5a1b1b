package load

import (
	"errors"
	"net"
	"runtime"
	"testing"
)

// There are always as many guests as requested, all with the expected answer.
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

// Guests use the plan's source addresses in turn: one address has 28,000 ports.
func TestGuestsHaveSources(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has all of 127.0.0.0/8; run it there")
	}
	p := Plan{Target: echoServer(t, "tcp"), Echo: true}
	if err := p.Sources.UnmarshalText([]byte("127.0.0.2-127.0.0.3")); err != nil {
		t.Fatal(err)
	}
	var g Guests
	defer g.Leave()
	if err := g.UpTo(t.Context(), p, 4); err != nil {
		t.Fatal(err)
	}
	from := map[string]int{}
	for _, nc := range g.open {
		from[nc.LocalAddr().(*net.TCPAddr).IP.String()]++
	}
	if from["127.0.0.2"] != 2 || from["127.0.0.3"] != 2 {
		t.Errorf("connections come from %v", from)
	}
}
