package http1

import "net/url"

// target is where a request line's path and query are. Only paths are served on the fast
// path, so url.ParseRequestURI can fail only at a wrong escape.
type target struct {
	from, query, to uint16 // query is the offset of the first '?', or to
	questions       bool   // there are several '?'
	escaped         bool   // the path has a '%'
	unusual         bool   // the path has a byte that package url would escape
}

// parse reads the target at in[at:] and returns the offset of the space behind it.
func (t *target) parse(in []byte, at int) int {
	*t = target{from: uint16(at)}
	if at == len(in) {
		return needMore
	}
	if in[at] != '/' {
		return giveUp
	}
	i := at
	for ; i < len(in); i++ {
		c := in[i]
		if bytesOf[c]&pathByte != 0 {
			continue
		}
		if c == '?' || c <= ' ' || c == 0x7f {
			break
		}
		t.unusual = true
		if c == '%' {
			t.escaped = true
			for j := i + 1; j <= i+2; j++ {
				if j == len(in) {
					return needMore
				}
				if bytesOf[in[j]]&hexByte == 0 {
					return giveUp
				}
			}
		}
	}
	t.query = uint16(i)
	for ; i < len(in) && in[i] > ' ' && in[i] != 0x7f; i++ {
		t.questions = t.questions || in[i] == '?' && i > int(t.query)
	}
	t.to = uint16(i)
	switch {
	case i == len(in):
		return needMore
	case in[i] != ' ':
		return giveUp
	}
	return i
}

// fill sets u as url.ParseRequestURI does. s is the head.
func (t *target) fill(u *url.URL, s string) {
	path := s[t.from:t.query]
	u.Path = path
	if t.unusual {
		if t.escaped {
			u.Path, _ = url.PathUnescape(path) // parse has seen that it can be
		}
		if u.EscapedPath() != path {
			u.RawPath = path
		}
	}
	switch {
	case t.query == t.to:
	case t.query+1 == t.to:
		u.ForceQuery = true
	default:
		u.RawQuery = s[t.query+1 : t.to]
	}
}
