//go:build race

package pool

// raceDetector reports whether the race detector is enabled.
const raceDetector = true
