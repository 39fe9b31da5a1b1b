package route

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode"
)

// A pattern is a parsed pattern and the place in the program where it was registered.
type pattern struct {
	text     string // as it was registered
	method   string // "" matches every method
	host     string // "" matches every host
	segments []segment
	site     string // file:line of the registration
}

// A segment is the part of a path between two slashes, or the end of the path.
//
//	/a   {text: "a"}
//	/{x} {text: "x", wild: true}
//	/{$} {text: "/"}, like a segment that is one escaped slash
//	/{x...} {text: "x", wild: true, rest: true}; a slash at the end is an unnamed one
type segment struct {
	text string // the unescaped literal, or the wildcard's name
	wild bool
	rest bool // matches everything up to the end
}

// end is the literal for the end of a path after a slash.
const end = "/"

func (s segment) isEnd() bool { return !s.wild && s.text == end }

// isOdd reports whether a literal can occur only in a path that is unclean or escaped.
func (s segment) isOdd() bool {
	return !s.wild && (s.text == "" || s.text == "." || s.text == "..")
}

func (p *pattern) last() segment { return p.segments[len(p.segments)-1] }

// isOdd reports whether the pattern has an odd segment.
func (p *pattern) isOdd() bool {
	return slices.ContainsFunc(p.segments, segment.isOdd)
}

// exactPath returns the only path that the pattern matches, if there is only one and it can
// arrive unescaped.
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

// parse parses "[METHOD ][HOST]/[PATH]", the syntax of net/http.ServeMux.
func parse(text string) (*pattern, error) {
	p := &pattern{text: text}
	rest := text
	if i := strings.IndexAny(text, " \t"); i >= 0 {
		p.method, rest = text[:i], strings.TrimLeft(text[i+1:], " \t")
		if p.method != "" && !isToken(p.method) {
			return nil, fmt.Errorf("%q is not a method; write one like GET", p.method)
		}
	}
	slash := strings.IndexByte(rest, '/')
	if slash < 0 {
		return nil, errors.New("it has no path; begin the path with a slash")
	}
	p.host, rest = rest[:slash], rest[slash:]
	if strings.Contains(p.host, "{") {
		return nil, errors.New("a host cannot have wildcards; begin the path with a slash")
	}
	if p.method != "" && p.method != "CONNECT" && rest != clean(rest) {
		return nil, fmt.Errorf("no request has this path, because paths are cleaned; write %s", clean(rest))
	}
	return p, p.parsePath(rest)
}

// parsePath parses a path that begins with a slash.
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
				return fmt.Errorf("two wildcards are named %s; rename one of them", s.text)
			}
			names[s.text] = true
		}
		p.segments = append(p.segments, s)
	}
	return nil
}

// parseSegment parses the text between two slashes, or after the last one.
func parseSegment(text string, more bool) (segment, error) {
	open := strings.IndexByte(text, '{')
	switch {
	case text == "" && !more:
		return segment{wild: true, rest: true}, nil
	case open < 0:
		return segment{text: unescape(text)}, nil
	case open > 0 || text[len(text)-1] != '}':
		return segment{}, fmt.Errorf("%s mixes text and a wildcard; a wildcard must be a whole segment", text)
	case text == "{$}" && more:
		return segment{}, errors.New("{$} is not at the end; it matches the end of the path")
	case text == "{$}":
		return segment{text: end}, nil
	}
	name, rest := strings.CutSuffix(text[1:len(text)-1], "...")
	if rest && more {
		return segment{}, fmt.Errorf("%s is not at the end; it matches the rest of the path", text)
	}
	if !isName(name) {
		return segment{}, fmt.Errorf("%q is not a valid wildcard name; use a Go identifier", name)
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

// isToken reports whether s is a valid HTTP method.
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

// unescape decodes percent-encoding. It returns invalid encodings unchanged.
func unescape(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	if plain, err := url.PathUnescape(s); err == nil {
		return plain
	}
	return s
}

// clean returns the path without empty segments, "." and "..". It allocates only if it changes
// something.
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
