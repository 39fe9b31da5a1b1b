//go:build race

package websocket

// raceDetector says that this is a build with it.
const raceDetector = true
