package torture

// Process is the server's process.
type Process struct {
	PID int
}
