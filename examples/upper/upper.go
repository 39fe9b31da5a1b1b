package main

import (
	"bytes"
	"fmt"
	"unicode"
	"unicode/utf8"

	"github.com/hone-go/hone/engine"
)

// Protocol answers every line of text with the same line in upper case. It does
// no I/O: an engine calls it with whatever has arrived, in whatever pieces, and
// writes what it appends to Turn.Out.
//
// A line ends with \n or \r\n, and its answer ends the same way. A line that the
// peer does not end is not answered.
type Protocol struct {
	// MaxLine is the longest line in bytes, its end included. Zero: 64 KiB.
	MaxLine int
}

// Advance answers the whole lines at the front of in. Turn.State remembers how
// many bytes of the unfinished line behind them hold no \n: a line that arrives
// byte by byte is looked at once, not once for every byte.
func (p Protocol) Advance(t *engine.Turn, in []byte) (used, need int, err error) {
	for {
		rest := in[used:]
		newline := bytes.IndexByte(rest[t.State:], '\n')
		if newline < 0 {
			t.State = uint64(len(rest))
		} else {
			t.State += uint64(newline)
		}
		if t.State >= uint64(p.maxLine()) {
			t.Out = p.Refuse(t.Out, rest, engine.TooLarge)
			return used, 0, engine.TooLarge
		}
		if newline < 0 {
			return used, 1, nil // all that is certain to come is its \n
		}
		if !t.Room() {
			return used, 0, nil
		}
		line := rest[:t.State+1]
		t.State = 0
		t.Mark(used)
		t.Out = appendUpper(t.Out, line)
		used += len(line)
	}
}

// Refuse says why the connection ends, as a line that a person can read.
func (p Protocol) Refuse(dst, _ []byte, why engine.Reason) []byte {
	if why == engine.TooLarge {
		return fmt.Appendf(dst, "error: %v, a line has at most %d bytes\n", why.String(), p.maxLine())
	}
	return fmt.Appendf(dst, "error: %v\n", why.String())
}

func (p Protocol) maxLine() int {
	if p.MaxLine > 0 {
		return p.MaxLine
	}
	return 64 << 10
}

// appendUpper appends text in upper case. Bytes that are not UTF-8 stay as they are.
func appendUpper(dst, text []byte) []byte {
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if r == utf8.RuneError {
			dst = append(dst, text[:size]...)
		} else {
			dst = utf8.AppendRune(dst, unicode.ToUpper(r))
		}
		text = text[size:]
	}
	return dst
}
