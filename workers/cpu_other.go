//go:build !unix && !windows

package workers

import "time"

// processTime is unknown on this system: Auto uses throughput and the scheduler instead.
func processTime() (used time.Duration, known bool) { return 0, false }
