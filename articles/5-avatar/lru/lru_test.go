package lru

import "testing"

func TestForgets(t *testing.T) {
	c := Cache[int]{Most: 2}
	c.Put("a", 1)
	c.Put("b", 2)
	c.Put("b", 3)
	c.Get("a")
	c.Put("c", 4)
	_, lost := c.Get("b")
	if a, ok := c.Get("a"); lost || !ok || a != 1 || len(c.at) != 2 || c.order.Len() != 2 {
		t.Errorf("a is %d, %v; b is there: %v; %d entries, a list of %d", a, ok, lost, len(c.at), c.order.Len())
	}
}
