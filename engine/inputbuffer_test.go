package engine

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/hone-go/hone/pool"
	"pgregory.net/rapid"
)

func newInputBudget() *inputBudget {
	m := new(inputBudget)
	m.init(1<<20, new(pool.Buffers), func() {})
	return m
}

// inboxModel compares an inputBuffer with a plain slice.
type inboxModel struct {
	in     inputBuffer
	memory *inputBudget
	base   []byte
	next   byte   // next byte to arrive: neighbours differ
	sent   int    // bytes that have arrived
	held   []byte // expected content of the inputBuffer
	want   int    // expected number of bytes to wait for
	size   int    // of its buffer, when last checked
}

// room calls space and checks how the buffer grew.
func (m *inboxModel) room(t *rapid.T) []byte {
	p := m.in.space(m.memory)
	if len(p) == 0 {
		t.Fatalf("space is empty with %d bytes held, %d wanted", len(m.held), m.want)
	}
	size := len(m.in.buffer())
	if most := max(2*len(m.held), len(m.in.base)) + leastKept; size > m.size && size > most {
		t.Fatalf("the buffer grew to %d with %d bytes held, base %d; want at most %d", size, len(m.held), len(m.in.base), most)
	}
	m.size = size
	return p
}

// arrive adds between 1 and most bytes, and serves when possible.
func (m *inboxModel) arrive(t *rapid.T, p []byte, most int) {
	n := min(most, len(p))
	if rapid.Bool().Draw(t, "short read") {
		n = rapid.IntRange(1, n).Draw(t, "bytes")
	}
	for i := range p[:n] {
		p[i] = m.next
		m.next = m.next*5 + 1
	}
	m.held = append(m.held, p[:n]...)
	m.want -= n
	m.sent += n
	if ready := m.in.arrived(n); ready != (m.want <= 0) {
		t.Fatalf("arrived(%d) returned %v, %d still wanted", n, ready, m.want)
	} else if !ready {
		return
	}
	used := len(m.held)
	if used < 1<<20 && rapid.Bool().Draw(t, "leaves a rest") {
		used = rapid.IntRange(0, len(m.held)).Draw(t, "used")
	}
	m.want = rapid.OneOf(rapid.IntRange(1, 20), rapid.IntRange(1, 200_000), rapid.Just(1<<30)).Draw(t, "want")
	m.in.served(used, m.want)
	m.held = m.held[used:]
}

func (m *inboxModel) check(t *rapid.T) {
	if held := m.memory.held.Load(); held != capacity(m.in.kept) {
		t.Fatalf("%d bytes are in use, but %d are counted", capacity(m.in.kept), held)
	}
	if got := m.in.bytes(); !bytes.Equal(got, m.held) || m.in.len() != len(m.held) {
		at := 0
		for at < min(len(got), len(m.held)) && got[at] == m.held[at] {
			at++
		}
		t.Fatalf("holds %d bytes (len %d), want %d; they differ at %d", len(got), m.in.len(), len(m.held), at)
	}
	m.size = len(m.in.buffer())
}

func TestInputBuffer(t *testing.T) {
	for _, size := range []int{512, 4096, 65536} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { checkInbox(t, size) })
		})
	}
}

func checkInbox(t *rapid.T, size int) {
	m := &inboxModel{base: make([]byte, size), memory: newInputBudget()}
	m.in.lend(m.memory, m.base)
	t.Repeat(map[string]func(*rapid.T){
		"read what is there": func(t *rapid.T) { m.arrive(t, m.room(t), 100_000) },
		"read a little":      func(t *rapid.T) { m.arrive(t, m.room(t), 5) },
		"read exactly": func(t *rapid.T) {
			p := m.room(t)
			m.arrive(t, p, max(1, m.want))
		},
		"read a large message": func(t *rapid.T) {
			left := rapid.IntRange(1, 300_000).Draw(t, "size")
			m.want, m.in.want = left, left
			for left > 0 {
				before := m.sent
				m.arrive(t, m.room(t), left)
				left -= m.sent - before
			}
		},
		"lend": func(t *rapid.T) { // also while lent, as a drain does
			if m.in.base == nil {
				for i := range m.base {
					m.base[i] = 0xee // overwritten by its next user
				}
			}
			m.in.lend(m.memory, m.base)
		},
		"give back": func(t *rapid.T) {
			m.in.giveBack(m.memory)
			if m.in.base != nil {
				t.Fatal("the base was given back but is still referenced")
			}
		},
		"": m.check,
	})
}

// A waiting connection keeps its rest in a fitting buffer, not in the buffer that was
// read into.
func TestInputBufferGivesBack(t *testing.T) {
	const size = 65536
	for _, x := range []struct{ before, message, rest int }{
		{0, 100, 0}, {0, 100, 1}, {0, 60_000, 1}, {0, 60_000, 5_000},
		// A first part too long to move into the base stays in its own buffer.
		{5_000, 60_000, 0}, {5_000, 60_000, 1}, {5_000, 60_000, 300}, {5_000, 60_000, 20_000},
	} {
		var in inputBuffer
		memory := newInputBudget()
		base := make([]byte, size)
		fill := func(n int) {
			for n > 0 {
				p := in.space(memory)
				p = p[:min(n, len(p))]
				in.arrived(len(p))
				n -= len(p)
			}
		}
		in.want = x.message
		in.lend(memory, base)
		if x.before > 0 {
			fill(x.before)
			in.giveBack(memory)
			in.lend(memory, base)
		}
		fill(x.message + x.rest - x.before)
		in.served(x.message, 4)
		in.giveBack(memory)
		kept := 0
		if in.kept.Lent() {
			kept = len(in.kept.Bytes())
		}
		most := 0
		if x.rest > 0 {
			most = max(2*x.rest, leastKept)
		}
		if in.len() != x.rest || kept > most {
			t.Errorf("%+v: waits with %d bytes in a buffer of %d, want at most %d", x, in.len(), kept, most)
		}
	}
}

// Only bytes that a peer sends cost memory, not the length that it claims.
func TestInputBufferBelievesNoLength(t *testing.T) {
	for _, size := range []int{512, 4096, 65536} {
		var in inputBuffer
		memory := newInputBudget()
		in.lend(memory, make([]byte, size))
		in.space(memory)
		in.arrived(4)
		n := testing.AllocsPerRun(100, func() {
			in.served(0, 1<<30)
			in.space(memory)
		})
		if n != 0 || len(in.buffer()) != size || in.kept.Lent() {
			t.Errorf("base %d: a claim of 1 GiB allocates %v times and has a buffer of %d", size, n, len(in.buffer()))
		}
		in.giveBack(memory)
		if len(in.buffer()) > leastKept {
			t.Errorf("base %d: a claim of 1 GiB keeps a buffer of %d while it waits", size, len(in.buffer()))
		}
	}
}

func TestInputBufferAllocates0(t *testing.T) {
	var in inputBuffer
	memory := newInputBudget()
	base := make([]byte, 4096)
	for name, f := range map[string]func(){
		"messages, whole": func() {
			in.space(memory)
			in.arrived(100)
			in.served(100, 4)
		},
		"messages, cut anywhere": func() {
			in.space(memory)
			in.arrived(130)
			in.served(in.len()-30, 70)
		},
		"lend and give back, with a rest": func() {
			in.giveBack(memory)
			in.lend(memory, base)
		},
	} {
		in = inputBuffer{}
		in.lend(memory, base)
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
}

// When the input budget is almost exhausted, a connection with 4 KiB of input stops
// reading: the next read would use a larger buffer.
func TestFullBufferDoesNotGrowWhenMemoryIsShort(t *testing.T) {
	s := bare(Limits{TotalInput: 1 << 20})
	k := s.bareConn()
	s.input.borrow(1 << 20)
	box := inputBuffer{base: make([]byte, smallInput), end: smallInput - 1}
	if k.holdsTooMuch(&box) {
		t.Errorf("a connection with %d bytes is closed", smallInput-1)
	}
	box.end = smallInput
	if !k.holdsTooMuch(&box) || k.reason() != InputBudget {
		t.Errorf("a connection with %d bytes continues to read, of %d with %d held; its reason to end is %v", smallInput, s.input.limit, s.input.held.Load(), k.reason())
	}
}

// Memory that user code may still hold is given up, and no longer counted.
func TestLostInputIsNotCounted(t *testing.T) {
	var buffers pool.Buffers
	var m inputBudget
	m.init(1<<20, &buffers, func() {})
	var b inputBuffer
	b.put(&m, make([]byte, 5000))
	if buffers.Stats().Lent != 1 || m.held.Load() == 0 {
		t.Fatalf("%d buffers, %d bytes", buffers.Stats().Lent, m.held.Load())
	}
	b.lose(&m)
	if st := buffers.Stats(); st.Lent != 0 || st.LentBytes != 0 || m.held.Load() != 0 {
		t.Errorf("%d buffers of %d bytes are left, %d bytes count", st.Lent, st.LentBytes, m.held.Load())
	}
}
