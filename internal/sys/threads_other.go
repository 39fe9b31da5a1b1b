//go:build !linux

package sys

import "time"

// Threads knows nothing on this system.
type Threads struct{}

// Find does nothing.
func (*Threads) Find() {}

// Known reports that the system does not tell.
func (*Threads) Known() bool { return false }

// Since returns nothing.
func (*Threads) Since() (ran, waited time.Duration) { return 0, 0 }

// Close does nothing.
func (*Threads) Close() {}
