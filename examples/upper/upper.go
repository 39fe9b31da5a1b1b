package main

import (
	"bytes"
	"fmt"
	"unicode"
	"unicode/utf8"

	"github.com/hone-go/hone/engine"
)

// Protocol answers every line of text with the same line in upper case. It does no I/O: an
// engine calls it with whatever bytes have arrived, and writes what it appends to Turn.Out.
//
// A line ends with \n or \r\n, and its answer ends the same way. A line without an end is
// not answered.
type Protocol struct {
	// MaxLine is the longest line in bytes, including its end. Zero: 64 KiB.
	MaxLine int
}

// Advance answers the complete lines at the front of in. Turn.State remembers how many bytes
// of the incomplete line after them contain no \n: a line that arrives byte by byte is
// scanned once, not once per byte.
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
			return used, 1, nil // the only byte that must still come is its \n
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

// Refuse tells the client, in one readable line, why the connection ends.
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

// appendUpper appends text in upper case. Invalid UTF-8 is kept as it is.
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
