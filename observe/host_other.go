//go:build !linux

package observe

// readHost returns nil: only Linux is implemented.
func readHost() *host { return nil }
