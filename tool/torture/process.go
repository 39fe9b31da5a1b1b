package torture

// Process is the server's process.
type Process struct {
	PID int
}

func (p *Process) memory() (int64, bool) { return 0, false }
