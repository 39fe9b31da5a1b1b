//go:build !race

package websocket

// raceDetector reports whether the race detector is on.
const raceDetector = false
