// Package tiny is for the tests of mutate.
package tiny

// Double is tested.
func Double(n *int) { *n *= 2 }

// Reset is not tested.
func Reset(n *int) { *n = 0 }

// Sum does not compile without its addition.
func Sum(all []int) (sum int) {
	for _, n := range all {
		sum += n
	}
	return sum
}
