package route_test

import (
	"net/http"
	"net/url"
	"strings"
)

// A dice picks a number from 0 to n-1.
type dice func(n int) int

func pick[T any](d dice, all []T) T { return all[d(len(all))] }

// A part of a generated pattern: a literal as written, {name}, {name...} or the end after a slash.
type part struct {
	literal string
	name    string
	rest    bool
	end     bool
}

// A spec is a pattern in parsed form.
type spec struct {
	method, host string
	parts        []part
}

func (s spec) String() string {
	var b strings.Builder
	if s.method != "" {
		b.WriteString(s.method + " ")
	}
	b.WriteString(s.host)
	for _, p := range s.parts {
		b.WriteByte('/')
		switch {
		case p.end:
			b.WriteString("{$}")
		case p.rest && p.name == "":
		case p.rest:
			b.WriteString("{" + p.name + "...}")
		case p.name != "":
			b.WriteString("{" + p.name + "}")
		default:
			b.WriteString(p.literal)
		}
	}
	return b.String()
}

func (s spec) names() []string {
	var names []string
	for _, p := range s.parts {
		if p.name != "" {
			names = append(names, p.name)
		}
	}
	return names
}

// The material of patterns and paths: equal prefixes and suffixes, more than eight bytes, every way
// to escape.
func genLiterals() []string {
	return []string{"a", "b", "c", "a", "b", "ab", "a\x00", "users", "received", "received_events", "received_Events",
		"longer-than-8", "longer-and-8", "%61", "a%2Fb", "%2f", "%2e%2e", "%2E", "%2E.", "%20", "a b", "ä", "%C3%A4", "%", "a%zz", "\\"}
}

// Queries as clients send them, some with characters that must be encoded in a Location, and one
// with a control character, which only a handler can set.
func genQueries() []string { return []string{"q=1&p=/../", "q=1", "?", "q=#//..", "q=ä//", "q=\x01"} }

func genHosts() []string { return []string{"", "", "", "", "h.example", "h.example", "x", "::1"} }

// newSpec generates a pattern. Some are invalid.
func newSpec(d dice) spec {
	s := spec{method: pick(d, []string{"", "", "GET", "GET", "HEAD", "POST", "PURGE", "CONNECT"}), host: pick(d, genHosts())}
	names := []string{"x", "y", "z", "w", "v"}
	for i := range d(5) {
		switch k := d(20); {
		case k < 11:
			s.parts = append(s.parts, part{literal: pick(d, genLiterals()[:3+d(len(genLiterals())-2)])})
		case k < 19:
			s.parts = append(s.parts, part{name: names[i]})
		default:
			s.parts = append(s.parts, part{literal: pick(d, []string{".", "..", "}", "$", "-"})})
		}
	}
	switch k := d(6); {
	case k == 0:
		s.parts = append(s.parts, part{end: true})
	case k == 1:
		s.parts = append(s.parts, part{rest: true, name: "r"})
	case k == 2 || len(s.parts) == 0:
		s.parts = append(s.parts, part{rest: true})
	}
	return s
}

// newPath generates an escaped path. For a CONNECT it often has empty segments, because a CONNECT's
// path is not cleaned.
func newPath(d dice, connect bool) string {
	var b strings.Builder
	for range d(7) {
		b.WriteByte('/')
		switch k := d(24); {
		case connect && k < 4:
		case k < 20:
			b.WriteString(pick(d, genLiterals()[:3+d(len(genLiterals())-2)]))
		case k == 20:
			b.WriteString(pick(d, []string{"", ".", "..", "%2F"}))
		default:
			b.WriteString(pick(d, []string{"1", "value", "eightlet", "more-than-eight", ".x", "..."}))
		}
	}
	if b.Len() == 0 || d(4) == 0 {
		b.WriteByte('/')
	}
	return b.String()
}

// newRequest generates a request as a server parses it, and sometimes one that no server would
// produce.
func newRequest(d dice) *http.Request {
	r := &http.Request{
		Method:     pick(d, []string{"GET", "GET", "GET", "HEAD", "POST", "PUT", "PURGE", "OPTIONS", "CONNECT"}),
		Host:       pick(d, []string{"h.example", "h.example:80", "x", "other", "", "[::1]:80", "::1", "a:b:c"}),
		ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{},
	}
	path := newPath(d, r.Method == http.MethodConnect)
	if u, err := url.ParseRequestURI(path); err == nil {
		r.URL = u
	} else {
		r.URL = &url.URL{Path: path}
	}
	switch d(40) {
	case 0:
		r.URL.RawPath = pick(d, []string{"/a", "/%61", "%", "/a/b"}) // may not match the path
	case 1:
		r.URL.Path = strings.TrimPrefix(r.URL.Path, "/")
		r.URL.RawPath = ""
	case 2:
		r.URL.Path, r.URL.RawPath = "*", ""
	case 3:
		r.URL.Path, r.URL.RawPath = "", ""
	}
	if d(4) == 0 {
		r.URL.RawQuery = pick(d, genQueries())
	}
	if r.Method == "CONNECT" {
		r.URL.Host = pick(d, []string{"", "h.example", "x"})
	}
	if d(60) == 0 {
		r.RequestURI = "*"
	}
	return r
}
