package http1

import (
	"net/http"
	"net/textproto"
	"net/url"
)

// fill sets the parts of r that the head determines, and u as r's URL. Both are zero except
// for r's context. Nothing in r aliases in: handlers keep strings, so all of them are parts
// of one copy.
func (h *head) fill(r *http.Request, u *url.URL, in []byte, remote string) {
	s := string(in[:h.size])
	h.target.fill(u, s)
	r.Method = s[:h.method]
	r.URL = u
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.1", 1, 1
	r.RequestURI = s[h.target.from:h.target.to]
	r.ContentLength = int64(h.length)
	r.Close = h.close
	r.RemoteAddr = remote
	h.fillHeader(r, s)
}

// fillHeader sets r.Header and r.Host.
func (h *head) fillHeader(r *http.Request, s string) {
	n := h.count - 1 // Host is not in the map
	noCache := h.noCache && !h.has(cacheControlName)
	hint := n
	if noCache {
		hint++
	}
	header := make(http.Header, hint)
	r.Header = header
	values := make([]string, hint)
	for i := range h.fields[:h.count] {
		f := &h.fields[i]
		value := s[f.from:f.to]
		if f.known == hostName {
			r.Host = value
			continue
		}
		key := knownNames[f.known]
		if f.known == otherName {
			key = textproto.CanonicalMIMEHeaderKey(s[f.name : f.name+uint16(f.length)])
		}
		// Only names that are unknown or repeated can be in the map already.
		if f.known == otherName || h.again>>f.known&1 != 0 {
			if before := header[key]; before != nil {
				header[key] = append(before, value)
				continue
			}
		}
		values[0] = value
		header[key] = values[:1:1]
		values = values[1:]
	}
	if noCache {
		values[0] = "no-cache"
		header[knownNames[cacheControlName]] = values[:1:1]
	}
}
