//go:build race

package framed_test

// raceDetector says that this is a build with it.
const raceDetector = true
