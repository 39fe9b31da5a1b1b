package child

import "time"

// Use is the resource use of several processes.
type Use struct {
	CPU      time.Duration
	Waited   time.Duration // for a processor, by all living threads together
	Resident int64         // bytes
	// Busiest is the process with the most CPU time: if a shell runs a server, the
	// server.
	Busiest int
	PIDs    []int // all of them

	busiest time.Duration
}
