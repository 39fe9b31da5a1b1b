package engine

import (
	"math/bits"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestBlockSizes(t *testing.T) {
	var p blocks
	for _, x := range []struct{ n, want int }{
		{0, minBlock}, {1, minBlock}, {minBlock, minBlock}, {minBlock + 1, 2 * minBlock},
		{4095, 4096}, {4096, 4096}, {4097, 8192},
		{maxBlock - 1, maxBlock}, {maxBlock, maxBlock},
		{maxBlock + 1, maxBlock + 1}, {1_000_001, 1_000_001}, // made to measure
	} {
		if got := p.get(x.n); len(got.b) != x.want || cap(got.b) != x.want {
			t.Errorf("get(%d) lends %d bytes of %d, want %d", x.n, len(got.b), cap(got.b), x.want)
		}
	}
	if got := classOf(maxBlock); got != len(p.classes)-1 {
		t.Errorf("the largest block is of class %d of %d", got, len(p.classes))
	}
}

// Whatever comes back, cut short or grown by append, what is lent is long
// enough, at its full capacity, and lent to one borrower only.
func TestBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p blocks
		type loan struct {
			k    *block
			mark byte
		}
		var lent []loan
		mark := byte(0)
		sizes := rapid.OneOf(rapid.IntRange(0, 1000), rapid.IntRange(0, 2*maxBlock))
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(lent) == 0 || rapid.Bool().Draw(t, "get") {
				n := sizes.Draw(t, "n")
				k := p.get(n)
				if len(k.b) < n || len(k.b) != cap(k.b) {
					t.Fatalf("get(%d) lends %d bytes of %d", n, len(k.b), cap(k.b))
				}
				if most := 4 * max(minBlock/2, n); len(k.b) > most { // a class, and what append added
					t.Fatalf("get(%d) lends %d bytes, want at most %d", n, len(k.b), most)
				}
				if slices.ContainsFunc(lent, func(l loan) bool { return l.k == k }) {
					t.Fatalf("get(%d) lends a block that is lent already", n)
				}
				mark++
				for i := range k.b {
					k.b[i] = mark
				}
				lent = append(lent, loan{k, mark})
				continue
			}
			i := rapid.IntRange(0, len(lent)-1).Draw(t, "which")
			k := lent[i].k
			for _, b := range k.b {
				if b != lent[i].mark {
					t.Fatal("somebody else wrote into a block that is lent")
				}
			}
			lent = slices.Delete(lent, i, i+1)
			switch rapid.IntRange(0, 2).Draw(t, "how it comes back") {
			case 1:
				k.b = k.b[:0]
			case 2:
				k.b = append(k.b, make([]byte, rapid.IntRange(1, 500).Draw(t, "grown by"))...)
			}
			p.put(k)
		}
	})
}

func TestBlocksRefuseWhatIsNoSize(t *testing.T) {
	var p blocks
	p.put(&block{make([]byte, minBlock-1)})
	p.put(&block{make([]byte, maxBlock+1)})
	p.put(&block{})
	for i := range p.classes {
		if v := p.classes[i].Get(); v != nil {
			t.Errorf("class %d holds a block of %d bytes", i, cap(v.(*block).b))
		}
	}
}

func TestBlocksAllocate0(t *testing.T) {
	var p blocks
	for n := minBlock; n <= maxBlock; n *= 2 {
		if allocs := testing.AllocsPerRun(100, func() { p.put(p.get(n)) }); allocs != 0 {
			t.Errorf("get(%d) and put (class %d): %v allocations, want 0", n, bits.Len(uint(n)), allocs)
		}
	}
}
