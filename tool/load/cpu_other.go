//go:build !unix

package load

import "time"

// processCPU is not known here.
func processCPU() (used time.Duration, known bool) { return 0, false }
