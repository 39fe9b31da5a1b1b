package view

import (
	"io"
	"os"
	"runtime"

	"golang.org/x/term"
)

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && file.Name() != os.DevNull
}

// sizeOf returns the size of the terminal, if it is known. Nothing is drawn on Windows.
func sizeOf(terminal *os.File) (width, height int, known bool) {
	width, height, err := term.GetSize(int(terminal.Fd()))
	return width, height, err == nil && width > 0 && height > 0 && runtime.GOOS != "windows"
}

// isDumb reports whether the terminal understands no escape sequences.
func isDumb() bool {
	name := os.Getenv("TERM")
	return name == "dumb" || name == "" && needsTERM || runtime.GOOS == "windows"
}

// wantsColour reports whether a terminal may show colours.
func wantsColour() bool { return os.Getenv("NO_COLOR") == "" && !isDumb() }

// watching is a form of progress output.
type watching uint8

const (
	notAtAll  watching = iota
	inLines            // that stay
	asPicture          // that changes, and is removed at the end
)

// How sets the form of progress output.
type How struct {
	// To is the destination. A terminal gets a picture, or lines if it cannot draw.
	To io.Writer
	// Lines asks for lines even if To is not a terminal.
	Lines bool
	// Plain asks for lines even if To can draw.
	Plain bool
}

// watching returns the form for To. A command in the background draws no pictures over
// the user's work.
func (h How) watching() watching {
	w, asked, plain := h.To, h.Lines, h.Plain
	draws := IsTerminal(w)
	if draws {
		_, _, draws = sizeOf(w.(*os.File))
	}
	switch {
	case draws && !plain && !isDumb() && inForeground(w.(*os.File)):
		return asPicture
	case asked, IsTerminal(w) && (plain || isDumb()):
		return inLines
	}
	return notAtAll
}
