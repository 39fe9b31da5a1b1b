//go:build !race

package fleet

const (
	slower = 1 // than without the race detector
	most   = 7 // agents
)
