// Package flaky is for the tests of mutate.
package flaky

// Set is tested now and then.
func Set(n *int) { *n = 1 }
