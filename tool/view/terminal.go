package view

import (
	"io"
	"os"
)

// IsTerminal reports whether somebody looks at w.
func IsTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && file.Name() != os.DevNull
}

// isDumb reports whether the terminal understands no escape sequences.
func isDumb() bool {
	name := os.Getenv("TERM")
	return name == "dumb" || name == "" && needsTERM
}

// wantsColour reports whether a terminal may show colours.
func wantsColour() bool { return os.Getenv("NO_COLOR") == "" && !isDumb() }

// watching is how a command shows how far it is.
type watching uint8

const (
	notAtAll  watching = iota
	inLines            // that stay
	asPicture          // that changes, and goes in the end
)

// How says how a command shows what it does.
type How struct {
	// To is where it is shown. A terminal gets a picture, or lines if it cannot draw.
	To io.Writer
	// Lines asks for lines also where To is no terminal.
	Lines bool
	// Plain asks for lines also where To can draw.
	Plain bool
}

// watching is what To can show. A command in the background draws no pictures where
// somebody works.
func (h How) watching() watching {
	w, asked, plain := h.To, h.Lines, h.Plain
	draws := IsTerminal(w) && hasSize(w.(*os.File))
	switch {
	case draws && !plain && !isDumb() && inForeground(w.(*os.File)):
		return asPicture
	case asked, IsTerminal(w) && (plain || isDumb()):
		return inLines
	}
	return notAtAll
}
