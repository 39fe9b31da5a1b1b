package engine

import (
	"testing"

	"github.com/hone-go/hone/engine/internal/input"
)

// When the input budget is almost exhausted, a connection with 4 KiB of input stops
// reading: the next read would use a larger buffer.
func TestFullBufferDoesNotGrowWhenMemoryIsShort(t *testing.T) {
	s := bare(Limits{TotalInput: 1 << 20})
	k := s.bareConn()
	s.input.Add(1 << 20)
	var box input.Buffer
	box.Use(make([]byte, input.Small))
	box.Arrived(input.Small - 1)
	if k.owner().holdsTooMuch(&box) {
		t.Errorf("a connection with %d bytes is closed", input.Small-1)
	}
	box.Arrived(1)
	if !k.owner().holdsTooMuch(&box) || k.reason() != InputBudget {
		t.Errorf("a connection with %d bytes continues to read, of %d with %d held; its reason to end is %v", input.Small, s.input.Limit(), s.input.Held(), k.reason())
	}
}
