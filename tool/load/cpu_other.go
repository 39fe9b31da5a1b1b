//go:build !unix

package load

import "time"

// processCPU is not available on this system.
func processCPU() (used time.Duration, known bool) { return 0, false }
