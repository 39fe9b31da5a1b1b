// Package pool provides free lists and pools that reuse memory.
//
// Prefer, in this order:
//
//  1. the stack: a value or an array that does not escape costs nothing;
//  2. its owner: a field of the connection, the loop or the worker that uses it,
//     or a [Local] where that owner needs several;
//  3. a pool: [Objects] for values of one type, [Buffers] for bytes.
//
// Each step costs more than the one before (Local 7 ns, Objects 20, Buffers 25), and from
// Local on a use after release is possible. docs/pools.md gives the sizes from which a
// pool pays off.
//
// The package starts no goroutines, and no pool contains a channel or a timer. Keep a
// pool in the struct that uses it: a pooled object that holds a channel or a timer must
// not move from one testing/synctest bubble to another.
//
// # Checking
//
// Releasing a [Buffer] twice, or using it after its Release, panics in every build. With
// the build tag poolcheck the same code also
//
//   - fills released buffers with 0xDB, holds them back for a while, and detects
//     writes to them;
//   - detects what became unreachable without being put back;
//   - panics when an object is put twice into [Objects] or [Local];
//   - reports in each case where the memory was handed out and where it was put back.
package pool

// Problem is the kind of misuse in a [Finding].
type Problem string

const (
	// Leaked is a buffer or object that became unreachable without being put back.
	Leaked Problem = "leaked: never put back"
	// Written is a buffer that was written to after its Release.
	Written Problem = "written to after its release"
)

// Finding is misuse that a build with -tags poolcheck detected after the fact.
type Finding struct {
	Problem Problem
	Lent    string // stack of the Get
	Back    string // stack of the Release or Put; empty when Leaked
}

// String returns the problem and both stacks.
func (f Finding) String() string {
	s := "pool: " + string(f.Problem) + "\nhanded out by:\n" + f.Lent
	if f.Back != "" {
		s += "put back by:\n" + f.Back
	}
	return s
}
