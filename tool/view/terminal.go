package view

import (
	"io"
	"os"
	"runtime"

	"golang.org/x/term"
)

func asTerminal(w io.Writer) (*os.File, bool) {
	file, ok := w.(*os.File)
	return file, ok && term.IsTerminal(int(file.Fd()))
}

// canDraw returns the terminal's size; zero while it is not known, and while another command owns the terminal.
func canDraw(terminal *os.File) (width, height int) {
	width, height, err := term.GetSize(int(terminal.Fd()))
	if err != nil || height == 0 || !inForeground(terminal) {
		return 0, 0
	}
	return width, height
}

// isDumb reports whether the terminal understands no escape sequences.
func isDumb() bool {
	name := os.Getenv("TERM")
	return name == "dumb" || name == "" || runtime.GOOS == "windows"
}
