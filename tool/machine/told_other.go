//go:build !darwin

package machine

import "os"

// ask reads the CPU's name from the environment on Windows. Linux has files for
// everything.
func ask() told { return told{cpu: os.Getenv("PROCESSOR_IDENTIFIER")} }
