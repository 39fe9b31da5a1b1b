package ration

import (
	"testing"

	"github.com/hone-go/hone/pool"
)

// A buffer that comes back when memory has just ceased to be short does not stay.
func TestSparesEndWithTheShortage(t *testing.T) {
	var memory pool.Buffers
	short := true
	s := Spares{isShort: func() bool { return short }}
	s.Keep(memory.Get(100))
	s.Keep(memory.Get(200))
	if n, bytes := s.Size(); n != 2 || !s.Any() || bytes != memory.Stats().LentBytes {
		t.Fatalf("%d buffers of %d bytes are spare, want 2 of %d", n, bytes, memory.Stats().LentBytes)
	}
	late := memory.Get(300)
	short = false
	s.Keep(late)
	if st := memory.Stats(); st.Lent != 0 || s.Any() {
		t.Errorf("%d buffers are left", st.Lent)
	}
}

// Spares are in no budget, so there are only so many, and none is large.
func TestSparesAreFew(t *testing.T) {
	var memory pool.Buffers
	s := Spares{most: 3 << 10}
	s.Keep(memory.Get(2 << 20))
	if n, _ := s.Size(); n != 0 {
		t.Error("a large buffer is kept")
	}
	for range 5 {
		s.Keep(memory.Get(1 << 10))
	}
	n, bytes := s.Size()
	if st := memory.Stats(); n == 0 || bytes > s.most || st.Lent != int64(n) || st.LentBytes != bytes {
		t.Errorf("%d buffers of %d bytes are spare, and %d of %d are lent", n, bytes, st.Lent, st.LentBytes)
	}
	s.Take().Release()
	if _, left := s.Size(); left >= bytes {
		t.Errorf("%d bytes are left of %d", left, bytes)
	}
	s.Release()
	if st := memory.Stats(); st.Lent != 0 || s.Any() {
		t.Errorf("%d buffers are left", st.Lent)
	}
}
