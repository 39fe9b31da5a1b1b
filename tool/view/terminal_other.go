//go:build !linux

package view

import "os"

// inForeground assumes that this process may write to the terminal.
func inForeground(*os.File) bool { return true }

// watchContinue watches no signal on this system.
func watchContinue() (continued <-chan os.Signal, stop func()) { return nil, func() {} }
