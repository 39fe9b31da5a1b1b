//go:build !race

package framed_test

// raceDetector reports whether the race detector is enabled.
const raceDetector = false
