package outbox

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hone-go/hone/internal/testrun"
)

// modelQueue is what an Queue should hold, in plain slices.
type modelQueue struct {
	ready, held []string // one for each post; a held push begins with "P"
	visiting    bool
	free        bool
}

func (m *modelQueue) bytes() (ready, all string) {
	var b bytes.Buffer
	for _, s := range m.ready {
		b.WriteString(s)
	}
	ready = b.String()
	for _, s := range m.held {
		b.WriteString(s)
	}
	return ready, b.String()
}

// A queue hands on what was posted, in order, around the output of visits, and accounts
// for its memory.
func TestOutputQueueLikeItsModel(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	for round := range testrun.Sized(40, 400) {
		var q Queue
		var m modelQueue
		var buffers Memory
		n := 0
		var offers []string // in ready, or taken
		text := func(kind string) (string, [][]byte) {
			n++
			size := []int{1, 10, 700, 5000, 40_000}[rng.IntN(5)]
			s := kind + fmt.Sprint(n) + string(bytes.Repeat([]byte{byte('a' + n%26)}, rng.IntN(size)))
			cut := rng.IntN(len(s) + 1)
			return s, [][]byte{[]byte(s[:cut]), nil, []byte(s[cut:])}
		}
		for range 60 {
			switch what := rng.IntN(10); {
			case what < 4:
				push := rng.IntN(2) == 0
				kind := "R"
				if push {
					kind = "P"
				}
				s, parts := text(kind)
				before := q.Memory()
				if grown := postTo(&q, &buffers, parts, len(s), push); grown != (q.Memory() > before) {
					t.Fatalf("seed %d: grown is %v, and the memory went from %d to %d", seed, grown, before, q.Memory())
				}
				if m.visiting {
					m.held = append(m.held, s)
				} else {
					m.ready = append(m.ready, s)
				}
			case what == 9 && !m.visiting && round%5 >= 2:
				s, parts := text("O")
				q.Offer(&buffers, parts, len(s))
				m.ready = append(m.ready, s)
				offers = append(offers, s)
				if rng.IntN(2) == 0 {
					break
				}
				for len(offers) > 0 && !slices.Contains(m.ready, offers[0]) { // taken, maybe in part
					offers = offers[1:]
				}
				dropped := 0
				if len(offers) > 1 {
					dropped = len(offers[0])
					at := slices.Index(m.ready, offers[0])
					m.ready = slices.Delete(m.ready, at, at+1)
					offers = offers[1:]
				}
				if got := q.DropOffer(&buffers); got != dropped {
					t.Fatalf("seed %d: %d bytes are dropped, want %d", seed, got, dropped)
				}
			case what == 4:
				q.StartVisit()
				m.ready, m.held = append(m.ready, m.held...), nil
				m.visiting, m.free = true, false
			case what == 5:
				s, parts := text("V")
				q.Add(&buffers, parts, len(s))
				m.ready = append(m.ready, s)
			case what == 6 && m.visiting:
				q.LetEarlierGo()
				m.free = true
			case what == 7:
				said, dropped := rng.IntN(2) == 0, 0
				for _, s := range m.held {
					if said && s[0] == 'P' {
						dropped += len(s)
					} else {
						m.ready = append(m.ready, s)
					}
				}
				m.held, m.visiting, m.free = nil, false, false
				if got := q.EndVisit(&buffers, said); got != dropped {
					t.Fatalf("seed %d: the end of a visit dropped %d bytes, want %d", seed, got, dropped)
				}
			case what == 8:
				waits := len(m.ready) == 0 || m.visiting && !m.free
				if q.Waits() != waits {
					t.Fatalf("seed %d: waits is %v, want %v", seed, q.Waits(), waits)
				}
				if waits {
					break
				}
				b := q.Take()
				ready, _ := m.bytes()
				if got := string(b.Bytes()); got == "" || len(got) > len(ready) || got != ready[:len(got)] {
					t.Fatalf("seed %d: %d bytes are taken that are not the first of %d", seed, len(got), len(ready))
				}
				for left := len(b.Bytes()); left > 0; {
					if part := m.ready[0]; left < len(part) {
						m.ready[0] = part[left:]
						break
					} else if left -= len(part); true {
						m.ready = m.ready[1:]
					}
				}
				if round%2 == 0 {
					buffers.GiveBack(b)
				} else {
					buffers.Spares.Keep(b)
				}
			case what == 9 && round%5 == 1:
				buffers.Spares.Release()
			case what == 9 && round%5 == 0:
				dropped := 0
				for _, s := range m.held {
					dropped += len(s)
				}
				if m.held = nil; q.DropHeld() != dropped {
					t.Fatalf("seed %d: not all that was held is dropped", seed)
				}
			}
			ready, all := m.bytes()
			if q.Len() != len(all) || q.chain.len() != len(ready) || q.IsEmpty() != (all == "") {
				t.Fatalf("seed %d: %d bytes, %d of them ready; want %d and %d", seed, q.Len(), q.chain.len(), len(all), len(ready))
			}
			spares, spare := buffers.Spares.Size()
			if lent := buffers.Stats().LentBytes; lent != q.Memory()+spare || buffers.Spares.Any() != (spares > 0) {
				t.Fatalf("seed %d: the memory is %d and %d, but %d bytes are in use", seed, q.Memory(), spare, lent)
			}
		}
		q.DropAll(&buffers.Spares)
		buffers.Spares.Release()
		if st := buffers.Stats(); st.Lent != 0 || q.Memory() != 0 || !q.IsEmpty() {
			t.Fatalf("seed %d: %d buffers and %d bytes are left", seed, st.Lent, q.Memory())
		}
	}
}

// However much is queued, in whatever sizes, a queue takes little more memory than that.
func TestOutputQueueWastesLittle(t *testing.T) {
	for _, size := range []int{20, 1000, 9000, 16 << 10, 100_000} {
		var q Queue
		var buffers Memory
		p := make([]byte, size)
		for q.Len() < 1<<20 {
			q.Add(&buffers, [][]byte{p}, size)
		}
		if waste := q.Memory() - int64(q.Len()); waste > int64(q.Len())/8+mostPiece {
			t.Errorf("posts of %d bytes: %d bytes take %d more", size, q.Len(), waste)
		}
		q.DropAll(nil)
	}
}

// The list of a queue that is never empty stays as short as the queue.
func TestOutputQueueThatIsNeverEmpty(t *testing.T) {
	var q Queue
	var buffers Memory
	p := make([]byte, mostPiece)
	for range 10 {
		postTo(&q, &buffers, [][]byte{p}, len(p), true)
	}
	for range 10_000 {
		postTo(&q, &buffers, [][]byte{p}, len(p), true)
		q.Take().Release()
	}
	if cap(q.full) > 100 {
		t.Errorf("the list of 10 pieces has room for %d", cap(q.full))
	}
	q.DropAll(nil)
}

func postTo(q *Queue, memory *Memory, parts [][]byte, n int, push bool) (grown bool) {
	if q.visiting {
		return q.PostHeld(memory, parts, n, push)
	}
	return q.Add(memory, parts, n)
}
