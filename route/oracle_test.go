package route_test

import (
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
)

// An oracle applies the rules without any tree: it tries every pattern on every request.
type oracle []spec

// An answer is the response of a mux to a request.
type answer struct {
	code     int
	pattern  string
	values   string
	allow    string
	location string
}

// answer applies the rules.
func (o oracle) answer(r *http.Request) answer {
	if r.RequestURI == "*" {
		return answer{code: http.StatusBadRequest}
	}
	if r.Method == http.MethodConnect {
		return o.connected(r)
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	escaped := r.URL.EscapedPath()
	clean := cleaned(escaped)
	best := o.best(host, r.Method, clean)
	if (best == nil || best.takesMore(clean)) && !strings.HasSuffix(clean, "/") {
		if to := o.best(host, r.Method, clean+"/"); to != nil && !to.takesMore(clean+"/") {
			u := url.URL{Path: cleaned(r.URL.Path) + "/", RawQuery: r.URL.RawQuery}
			return answer{code: http.StatusTemporaryRedirect, pattern: to.String(), location: sent(r, u.String())}
		}
	}
	if clean != escaped {
		u := url.URL{Path: clean, RawQuery: r.URL.RawQuery}
		a := answer{code: http.StatusTemporaryRedirect, location: sent(r, u.String())}
		if best != nil {
			a.pattern = best.String()
		}
		return a
	}
	return o.found(best, host, clean)
}

// found is the answer for a clean path, by the best pattern or without one.
func (o oracle) found(best *spec, host, path string) answer {
	if best != nil {
		_, values := best.match(path)
		return answer{code: http.StatusOK, pattern: best.String(), values: strings.Join(values, "|")}
	}
	if methods := o.methods(host, path); len(methods) > 0 {
		return answer{code: http.StatusMethodNotAllowed, allow: strings.Join(methods, ", ")}
	}
	return answer{code: http.StatusNotFound}
}

// connected is the answer to a CONNECT: its path is not cleaned, and its host keeps the port. The
// URL's host decides about a missing slash and about other methods.
func (o oracle) connected(r *http.Request) answer {
	path := r.URL.EscapedPath()
	best := o.best(r.URL.Host, r.Method, path)
	if (best == nil || best.takesMore(path)) && !strings.HasSuffix(path, "/") {
		if to := o.best(r.URL.Host, r.Method, path+"/"); to != nil && !to.takesMore(path+"/") {
			u := url.URL{Path: cleaned(r.URL.Path) + "/", RawQuery: r.URL.RawQuery}
			return answer{code: http.StatusTemporaryRedirect, pattern: u.Path, location: sent(r, u.String())}
		}
	}
	return o.found(o.best(r.Host, r.Method, path), r.URL.Host, path)
}

// sent is the Location that net/http sends for a URL.
func sent(r *http.Request, to string) string {
	w := sink{header: make(http.Header)}
	http.Redirect(&w, r, to, http.StatusTemporaryRedirect)
	return w.header.Get("Location")
}

// best returns the pattern with precedence.
func (o oracle) best(host, method, path string) *spec {
	var best *spec
	for i := range o {
		s := &o[i]
		if s.host != "" && s.host != host || s.methodRank(method) < 0 {
			continue
		}
		if matches, _ := s.match(path); matches && (best == nil || s.before(best, method)) {
			best = s
		}
	}
	return best
}

func (s *spec) methodRank(method string) int {
	switch {
	case s.method == method:
		return 0
	case s.method == "GET" && method == "HEAD":
		return 1
	case s.method == "":
		return 2
	}
	return -1
}

// before reports whether s takes precedence over t, where both match.
func (s *spec) before(t *spec, method string) bool {
	if s.host != t.host {
		return s.host != ""
	}
	for i := range min(len(s.parts), len(t.parts)) {
		if a, b := s.parts[i].rank(), t.parts[i].rank(); a != b {
			return a < b
		}
	}
	return s.methodRank(method) < t.methodRank(method)
}

func (p part) rank() int {
	switch {
	case p.rest:
		return 2
	case p.name != "":
		return 1
	}
	return 0
}

// segments returns the decoded segments of a path, with "/" for the end after a slash, and where
// each begins.
func segments(path string) (texts []string, starts []int) {
	at := 0
	for at < len(path) {
		starts = append(starts, at+1)
		next := strings.IndexByte(path[at+1:], '/')
		text := path[at+1:]
		if next >= 0 {
			text = path[at+1 : at+1+next]
		}
		at += 1 + len(text)
		if text == "" && at == len(path) {
			text = "/"
		}
		texts = append(texts, decoded(text))
	}
	return texts, starts
}

func decoded(s string) string {
	if plain, err := url.PathUnescape(s); err == nil {
		return plain
	}
	return s
}

// match reports whether s matches a path, and returns its values.
func (s *spec) match(path string) (matches bool, values []string) {
	texts, starts := segments(path)
	for i, p := range s.parts {
		if i == len(texts) {
			return false, nil
		}
		switch {
		case p.rest:
			if p.name != "" {
				values = append(values, decoded(path[starts[i]:]))
			}
			return true, values
		case p.name != "":
			if texts[i] == "/" {
				return false, nil
			}
			values = append(values, texts[i])
		case p.end && texts[i] != "/", !p.end && texts[i] != decoded(p.literal):
			return false, nil
		}
	}
	return len(texts) == len(s.parts), values
}

// takesMore reports whether the last segment of s matches more than nothing.
func (s *spec) takesMore(path string) bool {
	last := s.parts[len(s.parts)-1]
	_, starts := segments(path)
	return last.rest && starts[len(s.parts)-1] < len(path)
}

func (o oracle) methods(host, path string) []string {
	var names []string
	for i := range o {
		s := &o[i]
		matches, _ := s.match(path)
		slashed := false
		if !strings.HasSuffix(path, "/") {
			slashed, _ = s.match(path + "/")
		}
		if s.method == "" || s.host != "" && s.host != host || !matches && !slashed {
			continue
		}
		names = append(names, s.method)
		if s.method == "GET" {
			names = append(names, "HEAD")
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func cleaned(p string) string {
	if !strings.HasPrefix(p, "/") {
		p = "/" + p
	}
	c := path.Clean(p)
	if strings.HasSuffix(p, "/") && c != "/" {
		c += "/"
	}
	return c
}

// equal reports whether s and t match exactly the same requests.
func (s *spec) equal(t *spec) bool {
	if s.method != t.method || s.host != t.host || len(s.parts) != len(t.parts) {
		return false
	}
	for i := range s.parts {
		a, b := s.parts[i], t.parts[i]
		if a.rank() != b.rank() || a.rank() == 0 && a.text() != b.text() {
			return false
		}
	}
	return true
}

func (p part) text() string {
	if p.end {
		return "/"
	}
	return decoded(p.literal)
}
