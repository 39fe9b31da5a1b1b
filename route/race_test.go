//go:build race

package route_test

// raceDetector says that this is a build with it.
const raceDetector = true
