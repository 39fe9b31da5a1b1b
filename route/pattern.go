package route

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"
	"unicode"
)

// A pattern is a parsed pattern: what it asks of a request, and where it stands
// in the program.
type pattern struct {
	text     string // as it was registered
	method   string // "" is every method
	host     string // "" is every host
	segments []segment
	site     string // file:line of the registration
}

// A segment is one part of a path between slashes, or its end.
//
//	/a   {text: "a"}
//	/{x} {text: "x", wild: true}
//	/{$} {text: "/"}, like a segment that is one escaped slash
//	/{x...} {text: "x", wild: true, rest: true}; a slash at the end is one without a name
type segment struct {
	text string // the unescaped literal, or the wildcard's name
	wild bool
	rest bool // takes everything up to the end
}

// end is the literal that stands for the end of a path behind a slash.
const end = "/"

func (s segment) isEnd() bool { return !s.wild && s.text == end }

// isOdd reports whether a literal can only be met in a path that is not cleaned,
// or is escaped.
func (s segment) isOdd() bool {
	return !s.wild && (s.text == "" || s.text == "." || s.text == "..")
}

func (p *pattern) last() segment { return p.segments[len(p.segments)-1] }

// isOdd reports whether the pattern has an odd segment.
func (p *pattern) isOdd() bool {
	for _, s := range p.segments {
		if s.isOdd() {
			return true
		}
	}
	return false
}

// exactPath is the one path that the pattern matches, if it is only one and can
// come unescaped.
func (p *pattern) exactPath() (string, bool) {
	var b strings.Builder
	for i, s := range p.segments {
		b.WriteByte('/')
		switch {
		case s.isEnd() && i == len(p.segments)-1:
		case s.wild || s.isOdd() || strings.Contains(s.text, "/"):
			return "", false
		default:
			b.WriteString(s.text)
		}
	}
	return b.String(), true
}

// parse reads "[METHOD ][HOST]/[PATH]", the language of net/http.ServeMux.
func parse(text string) (*pattern, error) {
	p := &pattern{text: text}
	rest := text
	if i := strings.IndexAny(text, " \t"); i >= 0 {
		p.method, rest = text[:i], strings.TrimLeft(text[i+1:], " \t")
		if p.method != "" && !isToken(p.method) {
			return nil, fmt.Errorf("%q is no method; write it like GET", p.method)
		}
	}
	slash := strings.IndexByte(rest, '/')
	if slash < 0 {
		return nil, errors.New("it has no path; begin the path with a slash")
	}
	p.host, rest = rest[:slash], rest[slash:]
	if strings.Contains(p.host, "{") {
		return nil, errors.New("a host has no wildcards; begin the path with a slash")
	}
	if p.method != "" && p.method != "CONNECT" && rest != clean(rest) {
		return nil, fmt.Errorf("no request has this path, because paths are cleaned; write %s", clean(rest))
	}
	return p, p.parsePath(rest)
}

// parsePath appends the segments of a path that begins with a slash.
func (p *pattern) parsePath(rest string) error {
	names := make(map[string]bool)
	for more := true; more; {
		var text string
		if text, rest, more = strings.Cut(rest[1:], "/"); more {
			rest = "/" + rest
		}
		s, err := parseSegment(text, more)
		if err != nil {
			return err
		}
		if s.wild && s.text != "" {
			if names[s.text] {
				return fmt.Errorf("two wildcards are named %s; rename one", s.text)
			}
			names[s.text] = true
		}
		p.segments = append(p.segments, s)
	}
	return nil
}

// parseSegment reads what is between two slashes, or behind the last.
func parseSegment(text string, more bool) (segment, error) {
	open := strings.IndexByte(text, '{')
	switch {
	case text == "" && !more:
		return segment{wild: true, rest: true}, nil
	case open < 0:
		return segment{text: unescape(text)}, nil
	case open > 0 || text[len(text)-1] != '}':
		return segment{}, fmt.Errorf("%s mixes text and a wildcard; a wildcard is a whole segment", text)
	case text == "{$}" && more:
		return segment{}, errors.New("{$} is not at the end; it stands for the end")
	case text == "{$}":
		return segment{text: end}, nil
	}
	name, rest := strings.CutSuffix(text[1:len(text)-1], "...")
	if rest && more {
		return segment{}, fmt.Errorf("%s is not at the end; it takes all that follows", text)
	}
	if !isName(name) {
		return segment{}, fmt.Errorf("%q is no name for a wildcard; take a Go identifier", name)
	}
	return segment{text: name, wild: true, rest: rest}, nil
}

// isName reports whether s is a Go identifier.
func isName(s string) bool {
	for i, c := range s {
		if !unicode.IsLetter(c) && c != '_' && (i == 0 || !unicode.IsDigit(c)) {
			return false
		}
	}
	return s != ""
}

// isToken reports whether s can be a method in HTTP.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		alphanumeric := c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9'
		if !alphanumeric && !strings.Contains("!#$%&'*+-.^_`|~", s[i:i+1]) {
			return false
		}
	}
	return s != ""
}

// unescape undoes percent-encoding. What cannot be decoded stays as it is.
func unescape(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	if plain, err := url.PathUnescape(s); err == nil {
		return plain
	}
	return s
}

// clean is the path without empty segments, "." and "..". It allocates only when
// there is something to clean.
func clean(p string) string {
	if p == "" {
		return "/"
	}
	if p[0] != '/' {
		p = "/" + p
	}
	c := path.Clean(p)
	switch {
	case p[len(p)-1] != '/' || c == "/":
		return c
	case len(p) == len(c)+1 && strings.HasPrefix(p, c):
		return p
	}
	return c + "/"
}
