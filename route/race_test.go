//go:build race

package route_test

// raceDetector reports whether the race detector is on.
const raceDetector = true
