package input

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/hone-go/hone/pool"
	"pgregory.net/rapid"
)

func newBudget() *Budget {
	m := new(Budget)
	m.Init(1<<20, new(pool.Buffers), func() {})
	return m
}

// bufferModel compares a Buffer with a plain slice.
type bufferModel struct {
	in     Buffer
	memory *Budget
	base   []byte
	next   byte   // next byte to arrive: neighbours differ
	sent   int    // bytes that have arrived
	held   []byte // expected content of the Buffer
	want   int    // expected number of bytes to wait for
	size   int    // of its buffer, when last checked
}

// room calls space and checks how the buffer grew.
func (m *bufferModel) room(t *rapid.T) []byte {
	p := m.in.Space(m.memory)
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
func (m *bufferModel) arrive(t *rapid.T, p []byte, most int) {
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
	if ready := m.in.Arrived(n); ready != (m.want <= 0) {
		t.Fatalf("arrived(%d) returned %v, %d still wanted", n, ready, m.want)
	} else if !ready {
		return
	}
	used := len(m.held)
	if used < 1<<20 && rapid.Bool().Draw(t, "leaves a rest") {
		used = rapid.IntRange(0, len(m.held)).Draw(t, "used")
	}
	m.want = rapid.OneOf(rapid.IntRange(1, 20), rapid.IntRange(1, 200_000), rapid.Just(1<<30)).Draw(t, "want")
	m.in.Served(used, m.want)
	m.held = m.held[used:]
}

func (m *bufferModel) check(t *rapid.T) {
	if held := m.memory.Held(); held != m.in.Kept() {
		t.Fatalf("%d bytes are in use, but %d are counted", m.in.Kept(), held)
	}
	if got := m.in.Bytes(); !bytes.Equal(got, m.held) || m.in.Len() != len(m.held) {
		at := 0
		for at < min(len(got), len(m.held)) && got[at] == m.held[at] {
			at++
		}
		t.Fatalf("holds %d bytes (len %d), want %d; they differ at %d", len(got), m.in.Len(), len(m.held), at)
	}
	m.size = len(m.in.buffer())
}

func TestInputBuffer(t *testing.T) {
	for _, size := range []int{512, 4096, 65536} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { checkBuffer(t, size) })
		})
	}
}

func checkBuffer(t *rapid.T, size int) {
	m := &bufferModel{base: make([]byte, size), memory: newBudget()}
	m.in.Lend(m.memory, m.base)
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
			m.in.Lend(m.memory, m.base)
		},
		"give back": func(t *rapid.T) {
			m.in.GiveBack(m.memory)
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
		var in Buffer
		memory := newBudget()
		base := make([]byte, size)
		fill := func(n int) {
			for n > 0 {
				p := in.Space(memory)
				p = p[:min(n, len(p))]
				in.Arrived(len(p))
				n -= len(p)
			}
		}
		in.want = x.message
		in.Lend(memory, base)
		if x.before > 0 {
			fill(x.before)
			in.GiveBack(memory)
			in.Lend(memory, base)
		}
		fill(x.message + x.rest - x.before)
		in.Served(x.message, 4)
		in.GiveBack(memory)
		kept := 0
		if in.kept.Lent() {
			kept = len(in.kept.Bytes())
		}
		most := 0
		if x.rest > 0 {
			most = max(2*x.rest, leastKept)
		}
		if in.Len() != x.rest || kept > most {
			t.Errorf("%+v: waits with %d bytes in a buffer of %d, want at most %d", x, in.Len(), kept, most)
		}
	}
}

// Only bytes that a peer sends cost memory, not the length that it claims.
func TestInputBufferBelievesNoLength(t *testing.T) {
	for _, size := range []int{512, 4096, 65536} {
		var in Buffer
		memory := newBudget()
		in.Lend(memory, make([]byte, size))
		in.Space(memory)
		in.Arrived(4)
		n := testing.AllocsPerRun(100, func() {
			in.Served(0, 1<<30)
			in.Space(memory)
		})
		if n != 0 || len(in.buffer()) != size || in.kept.Lent() {
			t.Errorf("base %d: a claim of 1 GiB allocates %v times and has a buffer of %d", size, n, len(in.buffer()))
		}
		in.GiveBack(memory)
		if len(in.buffer()) > leastKept {
			t.Errorf("base %d: a claim of 1 GiB keeps a buffer of %d while it waits", size, len(in.buffer()))
		}
	}
}

func TestInputBufferAllocates0(t *testing.T) {
	var in Buffer
	memory := newBudget()
	base := make([]byte, 4096)
	for name, f := range map[string]func(){
		"messages, whole": func() {
			in.Space(memory)
			in.Arrived(100)
			in.Served(100, 4)
		},
		"messages, cut anywhere": func() {
			in.Space(memory)
			in.Arrived(130)
			in.Served(in.Len()-30, 70)
		},
		"lend and give back, with a rest": func() {
			in.GiveBack(memory)
			in.Lend(memory, base)
		},
	} {
		in = Buffer{}
		in.Lend(memory, base)
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
}

// Memory that user code may still hold is given up, and no longer counted.
func TestLostInputIsNotCounted(t *testing.T) {
	var buffers pool.Buffers
	var m Budget
	m.Init(1<<20, &buffers, func() {})
	var b Buffer
	b.Put(&m, make([]byte, 5000))
	if buffers.Stats().Lent != 1 || m.Held() == 0 {
		t.Fatalf("%d buffers, %d bytes", buffers.Stats().Lent, m.Held())
	}
	b.Lose(&m)
	if st := buffers.Stats(); st.Lent != 0 || st.LentBytes != 0 || m.Held() != 0 {
		t.Errorf("%d buffers of %d bytes are left, %d bytes count", st.Lent, st.LentBytes, m.Held())
	}
}
