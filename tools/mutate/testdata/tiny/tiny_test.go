package tiny

import "testing"

func TestDouble(t *testing.T) {
	n := 5
	if Double(&n); n != 10 {
		t.Errorf("twice 5 is %d", n)
	}
}
