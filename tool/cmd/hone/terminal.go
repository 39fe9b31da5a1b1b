package main

import (
	"io"
	"os"
)

// isTerminal reports whether somebody looks at w.
func isTerminal(w io.Writer) bool {
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

// plainUsage is the help of --plain.
const plainUsage = "on a terminal, report in lines that stay instead of a view that changes"

// watching is how a command shows how far it is.
type watching uint8

const (
	notAtAll  watching = iota
	inLines            // that stay
	asPicture          // that changes, and goes in the end
)

// howToWatch is what w can show: a terminal a picture, or lines if it cannot draw or
// is not to; others lines, but only when asked. A command in the background draws
// no pictures where somebody works.
func howToWatch(w io.Writer, asked, plain bool) watching {
	draws := isTerminal(w) && hasSize(w.(*os.File))
	switch {
	case draws && !plain && !isDumb() && inForeground(w.(*os.File)):
		return asPicture
	case asked, isTerminal(w) && (plain || isDumb()):
		return inLines
	}
	return notAtAll
}
