package pool

import "math/bits"

// Memory comes in size classes, two per octave: 256, 384, 512, 768, 1024, ... A buffer is
// at most 1.5 times as large as what was asked for, and Go's allocator serves each class
// size without rounding up.
const (
	minBits = 8
	maxBits = 26
	minSize = 1 << minBits // smallest class
	maxSize = 1 << maxBits // largest value for Max
	classes = 2*(maxBits-minBits) + 1

	// octave is how many classes there are per doubling of the size.
	octave = 2

	// loose is the class of memory that is not pooled.
	loose = classes
)

// classFor returns the smallest class that holds n <= maxSize bytes.
func classFor(n int) int {
	if n <= minSize {
		return 0
	}
	k := bits.Len(uint(n - 1)) // 2^(k-1) < n <= 2^k
	c := octave * (k - minBits)
	if n <= 3<<(k-2) {
		c--
	}
	return c
}

// classSize returns the least capacity of memory in class c.
func classSize(c int) int {
	return (2 + c%octave) << (minBits - 1 + c/octave)
}

// classFilled returns the largest class that a block of n bytes can serve, minSize <= n
// <= maxSize.
func classFilled(n int) int {
	c := classFor(n)
	if classSize(c) > n {
		c--
	}
	return c
}
