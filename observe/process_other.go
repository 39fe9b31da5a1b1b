//go:build !unix

package observe

import "time"

// processCPU is not implemented on this system.
func processCPU() (time.Duration, bool) { return 0, false }
