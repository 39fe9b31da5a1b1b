package http1

import "net/url"

// target is the position of a request line's path and query. The fast path serves only
// paths, so url.ParseRequestURI can fail only on a bad escape.
type target struct {
	from, query, to uint16 // query is the offset of the first '?', or to
	questions       bool   // there is more than one '?'
	escaped         bool   // the path has a '%'
	unusual         bool   // the path has a byte that package url would escape
}

// parse parses the target at in[at:] and returns the offset of the space after it.
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
			u.Path, _ = url.PathUnescape(path) // cannot fail: parse has checked the escapes
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
