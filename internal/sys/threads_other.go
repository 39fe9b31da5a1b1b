//go:build !linux

package sys

// Threads knows nothing on this system.
type Threads struct{}

// Find, Known, Since and Close are those of Linux.
func (*Threads) Find()                          {}
func (*Threads) Known() bool                    { return false }
func (*Threads) Since(bool) (own, others Spell) { return own, others }
func (*Threads) Close()                         {}
