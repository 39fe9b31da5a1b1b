//go:build !linux

package sys

import "time"

// Threads knows nothing on this system.
type Threads struct{}

// Find, Known, Since and Close are those of Linux.
func (*Threads) Find()                              {}
func (*Threads) Known() bool                        { return false }
func (*Threads) Since() (ran, waited time.Duration) { return 0, 0 }
func (*Threads) Close()                             {}
