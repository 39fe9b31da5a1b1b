//go:build race

package http1

// raceDetector says that this is a build with it.
const raceDetector = true
