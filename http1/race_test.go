//go:build race

package http1

// raceDetector reports whether the race detector is on.
const raceDetector = true
