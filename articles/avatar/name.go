package avatar

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
	"golang.org/x/text/unicode/norm"
)

// Errors of names.
var (
	ErrNameTooLong = errors.New("avatar: the name is too long; shorten it")
	ErrNameInvalid = errors.New("avatar: the name is not text; send UTF-8 without control characters")
	ErrNameBlank   = errors.New("avatar: the name has no letter, digit or symbol; send one that has")
)

// Clean normalizes a name, so that names that look the same are equal: NFC, single spaces between
// words, no marks that only control text direction. It refuses names that are too long, are not
// text, or have nothing visible. It costs 10 ns and no allocation for a name of plain ASCII.
func (l Limits) Clean(name string) (string, error) {
	l = l.OrDefaults()
	switch {
	case len(name) > l.NameBytes:
		return "", ErrNameTooLong
	case isPlain(name):
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return "", ErrNameInvalid
	default:
		name = tidy(name)
	}
	switch {
	case len(l.cut(name)) < len(name):
		return "", ErrNameTooLong
	case !strings.ContainsFunc(name, isSeen):
		return "", ErrNameBlank
	}
	return name, nil
}

// Mend is Clean for services that never refuse a name: it cuts what is too long and removes what
// is not text. The result may be blank.
func (l Limits) Mend(name string) string {
	clean, _ := l.OrDefaults().mend(name)
	return clean
}

// mend also reports whether something was cut; l has its defaults filled in.
func (l Limits) mend(name string) (clean string, cut bool) {
	if len(name) > l.NameBytes {
		name, cut = cutBytes(name, l.NameBytes), true
	}
	if !isPlain(name) {
		name = tidy(strings.ToValidUTF8(name, ""))
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

// tidy removes invisible characters, collapses spaces, and composes.
func tidy(name string) string {
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

// isSeen reports whether a picture can show the character.
func isSeen(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsSymbol(r)
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

// hashOf must not change between machines and versions, because colours and identicons depend on
// it. It is FNV-1a with a finalizer, so that every bit counts.
func hashOf(name string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 0x100000001b3
	}
	h ^= h >> 32
	h *= 0xd6e8feb86659fd93
	h ^= h >> 32
	h *= 0xd6e8feb86659fd93
	return h ^ h>>32
}
