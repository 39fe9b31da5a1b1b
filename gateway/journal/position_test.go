package journal

import (
	"bytes"
	"errors"
	"slices"
	"testing"
)

// TestPositionEntries encodes and decodes what envelopes say of readers, which programs without readers skip.
func TestPositionEntries(t *testing.T) {
	want := []Position{
		{Name: "copy", Share: 2, Of: 3, Number: 1<<40 + 5, Generation: 7, Instance: 10, Away: 8, Expire: 9},
		{Name: "b", Of: 1, Removed: true, Ordered: true}, {Name: "c", Of: 1, Moves: true},
	}
	e := Encoder{}
	e.Begin(4)
	id := [16]byte{1, 2, 3}
	must(t, e.Identity(id))
	for i := range want {
		must(t, e.Position(&want[i]))
	}
	if err := e.Position(&Position{}); !errors.Is(err, ErrMalformed) {
		t.Errorf("a position without a name: %v", err)
	}
	b := e.Bytes()
	d, err := Decode(b)
	must(t, err)
	if got, ok := d.Identity(); !ok || got != id || !slices.Equal(slices.Collect(d.Positions()), want) {
		t.Errorf("%v, %+v", got, slices.Collect(d.Positions()))
	}
	if positionKind&maySkip == 0 || identityKind&maySkip == 0 {
		t.Error("programs without readers refuse the entries")
	}
	for _, at := range []int{headerSize + headSize + 16 + headSize} { // the length of the first name
		bad := bytes.Clone(b)
		bad[at]++
		if _, err := Decode(reseal(bad)); err == nil {
			t.Error("a malformed position was decoded")
		}
	}
}
