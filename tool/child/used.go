package child

import "time"

// Use is what a group of processes uses.
type Use struct {
	CPU      time.Duration
	Resident int64 // bytes
	// Busiest is the process that has used most: of a shell that runs a server,
	// the server.
	Busiest int
	PIDs    []int // all of them

	busiest time.Duration
}
