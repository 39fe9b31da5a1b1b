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
