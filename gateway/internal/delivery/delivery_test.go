package delivery

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hone-go/hone/gateway/internal/number"
)

// body is the body of a record: a client behind its length, and data.
func body(client string, data int) []byte {
	return append(append([]byte{byte(len(client))}, client...), make([]byte, data)...)
}

// TestOut: a reader gets each record that it wants once and in order, in Delivers that are no longer than its window and
// the target allow, wherever it begins, whether the envelopes are shared or read for it alone.
func TestOut(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		filter := []Filter{{Shares: 1}, {Client: "a", Shares: 1}, {Prefix: "b", Shares: 1}, {Share: 1, Shares: 2}}[random.IntN(4)]
		window := 2*Target + random.IntN(Target)
		out := Out{Filter: filter, Next: 2<<number.IndexBits | 1, Room: new(Workspace)}
		var want, got []uint64
		flush := func() {
			in := out.Deliver()
			if len(in) > Target+Head {
				t.Fatalf("seed %d: a Deliver of %d bytes", seed, len(in))
			}
			for n := range split(in[Head:]) {
				got = append(got, n)
			}
			out.Sent()
		}
		for pos := uint64(1); pos < 40; pos++ {
			var all [][]byte
			size := 0
			for i := range random.IntN(300) {
				b := body([]string{"a", "aa", "b", "bb"}[random.IntN(4)], random.IntN(1+random.IntN(2000)))
				all, size = append(all, b), size+len(b)+5
				if n := pos<<number.IndexBits | uint64(i); n >= out.Next && filter.wants(b) && pos > 1 {
					want = append(want, n)
				}
			}
			e := new(Envelope)
			if random.IntN(2) == 0 {
				e = &out.Room.Read
			}
			e.Set(pos, uint32(pos), size, len(all), slices.Values(all))
			for !out.Add(e, window) {
				if out.Len() == 0 {
					t.Fatalf("seed %d: the window is full with nothing in it", seed)
				}
				flush()
			}
			if out.Shared() {
				flush()
			}
		}
		if out.Len() > 0 {
			flush()
		}
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: %d records instead of %d", seed, len(got), len(want))
		}
	}
}

// TestOutBesideAFullWindow: what does not fit waits, and any record fits where nothing is in flight.
func TestOutBesideAFullWindow(t *testing.T) {
	out := Out{Filter: Filter{Shares: 1}, Room: new(Workspace)}
	e := new(Envelope)
	e.Set(1, 7, 3*Target, 2, slices.Values([][]byte{body("a", 10), body("a", 3*Target)}))
	if out.Add(e, 100) || out.Len() == 0 {
		t.Fatal("the first record fits and the second one does not")
	}
	if in := out.Deliver(); binary.BigEndian.Uint32(in[1:]) != 7 || fmt.Sprint(slices.Collect(firsts(in))) != "[65536]" {
		t.Errorf("%x", in)
	}
	out.Sent()
	if out.Add(e, 100) || out.Len() > 0 {
		t.Error("a record fits that is longer than the window")
	}
	if !out.Add(e, math.MaxInt) || out.Len() < 3*Target || out.Last>>number.IndexBits != 1 {
		t.Errorf("%d bytes, up to %d", out.Len(), out.Last)
	}
}

func firsts(deliver []byte) func(func(uint64) bool) {
	return func(yield func(uint64) bool) {
		for n := range split(deliver[Head:]) {
			if !yield(n) {
				return
			}
		}
	}
}
