//go:build !unix

package sys

import "time"

// ProcessTime is not available on this system.
func ProcessTime() (used time.Duration, known bool) { return 0, false }
