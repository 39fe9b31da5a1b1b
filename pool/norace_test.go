//go:build !race

package pool

// raceDetector says that this is a build with it.
const raceDetector = false
