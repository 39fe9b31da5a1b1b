package pool

import "math/bits"

// Memory is lent in classes, two an octave: 256, 384, 512, 768, 1024, ... A
// buffer is at most half larger than what was asked for, and each size is one
// that Go's allocator serves without rounding up.
const (
	minBits = 8
	maxBits = 26
	minSize = 1 << minBits // the smallest class
	maxSize = 1 << maxBits // the largest that a Max can ask for
	classes = 2*(maxBits-minBits) + 1

	// octave is how many classes lie between a size and twice that.
	octave = 2

	// loose is the class of memory that is not pooled.
	loose = classes
)

// classFor is the smallest class that holds n <= maxSize bytes.
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

// classSize is what memory of class c holds at least.
func classSize(c int) int {
	return (2 + c%octave) << (minBits - 1 + c/octave)
}

// classFilled is the largest class that minSize <= n <= maxSize bytes can serve.
func classFilled(n int) int {
	c := classFor(n)
	if classSize(c) > n {
		c--
	}
	return c
}
