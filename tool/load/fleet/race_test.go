//go:build race

package fleet

// With the race detector everything takes several times as long, and seven processes of
// one machine would wait for each other longer than agents may be silent.
const (
	slower = 3
	most   = 4
)
