package http1

import (
	"bufio"
	"bytes"
	"net/http"
	"net/url"
	"strings"
)

// Stand-in for head.go: slow, the same contract.

type verdict uint8

const (
	incomplete verdict = iota
	fast
	leave
)

const maxBody = 48 << 10

type head struct {
	size   int
	length int
	close  bool
	req    *http.Request
}

func (h *head) parse(in []byte) verdict {
	i := bytes.Index(in, []byte("\r\n\r\n"))
	if i < 0 {
		if len(in) > 1<<20 {
			return leave
		}
		return incomplete
	}
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(in[:i+4])))
	if err != nil || r.ProtoMinor != 1 || len(r.TransferEncoding) > 0 || r.ContentLength > maxBody || r.Header.Get("Expect") != "" || r.Host == "" || !strings.HasPrefix(r.RequestURI, "/") || r.Header.Get("Upgrade") != "" {
		return leave
	}
	h.size, h.length, h.close, h.req = i+4, int(r.ContentLength), r.Close, r
	return fast
}

func (h *head) fill(r *http.Request, u *url.URL, in []byte, remote string) {
	f := h.req
	*u = *f.URL
	r.Method, r.URL, r.Proto, r.ProtoMajor, r.ProtoMinor = f.Method, u, f.Proto, 1, 1
	r.Header, r.Host, r.ContentLength, r.RequestURI, r.Close, r.RemoteAddr = f.Header, f.Host, f.ContentLength, f.RequestURI, f.Close, remote
}
