// Package pool lends memory that is used again.
//
// Prefer, in this order:
//
//  1. the stack: a value or an array that does not escape costs nothing;
//  2. its owner: a field of the connection, the loop or the worker that uses it,
//     or a [Local] where the owner needs several;
//  3. a pool: [Objects] for values of one type, [Buffers] for bytes.
//
// Each step costs more than the one before (a Local 7 ns, Objects 20, Buffers 25),
// and from a Local on somebody may still use what has been given back.
// docs/pooling.md has the sizes from which a pool is worth that.
//
// Nothing here starts a goroutine, and no pool has a channel or a timer of its
// own. Keep pools in the struct that uses them: a pooled object that holds a
// channel or a timer must not go from one testing/synctest bubble to another.
//
// # Checking
//
// Release of a [Buffer] that is not lent panics in every build, and so does any
// other use of it. With the build tag poolcheck the same code also
//
//   - fills released buffers with 0xDB, keeps them back for a while, and finds
//     out who wrote into them meanwhile;
//   - finds out what has become unreachable without being given back;
//   - panics when an object is put twice into [Objects] or [Local];
//   - says in each case where the memory was lent and where it was given back.
package pool

// Problem is what is wrong about a [Finding].
type Problem string

const (
	// Leaked is what became unreachable without being given back.
	Leaked Problem = "leaked: never given back"
	// Written is a buffer that was written to after its Release.
	Written Problem = "written to after it was given back"
)

// Finding is misuse that the check build has found later than it happened.
type Finding struct {
	Problem Problem
	Lent    string // the stack that borrowed it
	Back    string // the stack that gave it back; empty when Leaked
}

// String has both stacks.
func (f Finding) String() string {
	s := "pool: " + string(f.Problem) + "\nlent by:\n" + f.Lent
	if f.Back != "" {
		s += "given back by:\n" + f.Back
	}
	return s
}
