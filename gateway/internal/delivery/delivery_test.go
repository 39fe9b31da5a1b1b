package delivery

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hone-go/hone/gateway/internal/number"
	"github.com/hone-go/hone/internal/testrun"
)

// body is the body of a record: a client behind its length, numbers, an attribute of another kind, a topic, and data.
func body(client, topic string, data int) []byte {
	b := append(append([]byte{byte(len(client))}, client...), make([]byte, 24)...)
	b = append(b, 2, 9, 0, 2, 't', '/', topicKind, 0, byte(len(topic)))
	return append(append(b, topic...), make([]byte, data)...)
}

// TestOut: a reader gets each record that it wants once and in order, in Delivers that are no longer than its window and
// the target allow, wherever it begins, whether the envelopes are shared or read for it alone.
func TestOut(t *testing.T) {
	for seed := range uint64(testrun.Sized(40, 200)) {
		random := rand.New(rand.NewPCG(seed, 1))
		filter := []Filter{{Shares: 1}, {Client: "a", Shares: 1}, {Prefix: "b", Shares: 1}, {Share: 1, Shares: 2}, {Topic: "t/", Shares: 1}}[random.IntN(5)]
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
				client, topic := []string{"a", "aa", "b", "bb"}[random.IntN(4)], []string{"t", "t/", "t/7"}[random.IntN(3)]
				b := body(client, topic, random.IntN(1+random.IntN(2000)))
				all, size = append(all, b), size+len(b)+5
				if n := pos<<number.IndexBits | uint64(i); n >= out.Next && pos > 1 && wants(filter, client, topic) {
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

// wants says in other words what a filter wants.
func wants(f Filter, client, topic string) bool {
	switch {
	case f.Client != "":
		return f.Client == client
	case f.Shares > 1:
		return crc32.Checksum([]byte(client), crc32.MakeTable(crc32.Castagnoli))%f.Shares == f.Share
	}
	return strings.HasPrefix(client, f.Prefix) && strings.HasPrefix(topic, f.Topic)
}

// TestOutBesideAFullWindow: what does not fit waits, and any record fits where nothing is in flight.
func TestOutBesideAFullWindow(t *testing.T) {
	out := Out{Filter: Filter{Shares: 1}, Room: new(Workspace)}
	e := new(Envelope)
	e.Set(1, 7, 3*Target, 2, slices.Values([][]byte{body("a", "", 10), body("a", "", 3*Target)}))
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
