//go:build !linux

package view

import (
	"os"
	"runtime"

	"golang.org/x/term"
)

// needsTERM: some systems do not set TERM.
const needsTERM = false

// sizeOf returns the size of the terminal. On Windows it is unknown: nothing is drawn there.
func sizeOf(terminal *os.File) (width, height int, known bool) {
	width, height, err := term.GetSize(int(terminal.Fd()))
	return width, height, err == nil && width > 0 && height > 0 && runtime.GOOS != "windows"
}

// inForeground assumes that this process may write to the terminal.
func inForeground(*os.File) bool { return true }

// keyboard is not read on this system; Ctrl-C is a signal all the same.
type keyboard struct{}

func takeKeyboard() *keyboard { return nil }

func (*keyboard) giveBack() {}

// jobs handles no signals on this system.
type jobs struct{ signals chan os.Signal }

func watchJobs() *jobs { return new(jobs) }

func (*jobs) stop() {}

func (*jobs) obey(os.Signal) {}
