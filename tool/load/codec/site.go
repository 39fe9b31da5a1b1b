package codec

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// site is the server of a URL: what the targets HTTP and WebSocket have in common.
type site struct {
	text, network, address string
	host, uri              string // Host header and request target
	page                   *url.URL
	tls                    *tls.Config // nil: no TLS
}

// route returns the way to the site of a target.
func (s *site) route(t Target) Route {
	return Route{Target: t, Network: s.network, Address: s.address, Page: s.page, TLS: s.tls}
}

// locate parses a URL with one of two schemes.
func locate(text, plain, secured string, config *tls.Config) (site, error) {
	s := site{text: public(text)}
	scheme, rest, _ := strings.Cut(text, "://")
	if scheme != plain && scheme != secured {
		return s, badURL(text, fmt.Sprintf("begin it with %s:// or %s://", plain, secured))
	}
	if socket, ok := strings.CutPrefix(rest, "unix:"); ok {
		var path string
		socket, path, _ = strings.Cut(socket, ":")
		if socket == "" {
			return s, badURL(text, fmt.Sprintf("name the socket, as in %s://unix:/run/server.sock:/path", plain))
		}
		s.network, s.address = "unix", socket
		text = scheme + "://localhost" + path
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Hostname() == "":
		return s, badURL(text, fmt.Sprintf("write it as %s://127.0.0.1:8080/path", plain))
	case u.User != nil:
		return s, badURL(text, "give user and password as an Authorization header (--basic-file FILE)")
	case u.Fragment != "":
		return s, badURL(text, "leave out what begins with #: it is never sent")
	}
	s.page, s.host, s.uri = u, u.Host, u.RequestURI()
	if strings.ContainsFunc(s.host+s.uri, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return s, badURL(text, "write blanks and other letters than ASCII as %20 and the like")
	}
	port := u.Port()
	switch {
	case port == "" && scheme == plain:
		port = "80"
	case port == "":
		port = "443"
	}
	if s.network == "" {
		s.network, s.address = "tcp", net.JoinHostPort(u.Hostname(), port)
	}
	if scheme == secured {
		s.secure(config, u.Hostname())
	}
	return s, nil
}

// secure configures TLS.
func (s *site) secure(config *tls.Config, name string) {
	s.tls = config.Clone()
	if s.tls == nil {
		s.tls = &tls.Config{}
	}
	s.tls.ServerName = cmp.Or(s.tls.ServerName, name)
	s.tls.NextProtos = []string{"http/1.1"}
}

// public returns a URL without its secrets, because results and errors are shared.
func public(text string) string {
	if at := strings.IndexAny(text, "?#"); at >= 0 {
		text = text[:at+1] + "…"
	}
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		return text
	}
	host, path, _ := strings.Cut(rest, "/")
	if at := strings.LastIndex(host, "@"); at >= 0 {
		return scheme + "://…@" + host[at+1:] + rest[len(rest)-len(path)-min(len(rest)-len(host), 1):]
	}
	return text
}

func badURL(text, try string) *Error {
	return &Error{Kind: BadPlan, What: fmt.Sprintf("the target %q cannot be reached by HTTP", public(text)), Try: try}
}

// header returns a request's headers, and its Host.
func (s *site) header(given http.Header) (header http.Header, host string, err error) {
	header = http.Header{}
	for name, values := range given {
		if err := checkHeader(name, values); err != nil {
			return nil, "", err
		}
		for _, value := range values {
			header.Add(name, value)
		}
	}
	if host = header.Get("Host"); host == "" {
		host = s.host
	}
	header.Del("Host") // it is written first
	if header.Values("User-Agent") == nil {
		header.Set("User-Agent", "hone")
	}
	return header, host, nil
}

// head returns a request up to its body.
func (s *site) head(method, host string, header http.Header) []byte {
	b := fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, s.uri, host)
	for _, name := range slices.Sorted(maps.Keys(header)) {
		for _, value := range header[name] {
			b = fmt.Appendf(b, "%s: %s\r\n", name, value)
		}
	}
	return append(b, "\r\n"...)
}

// checkHeader refuses a header that would change the request's structure.
func checkHeader(name string, values []string) error {
	switch http.CanonicalHeaderKey(name) {
	case "Content-Length", "Transfer-Encoding":
		return badTarget("the header "+name, "leave it out: it is made from the Body")
	case "Upgrade":
		return badTarget("the header "+name, "leave it out: nothing but HTTP/1.1 is spoken")
	}
	if !isToken(name) {
		return badTarget(fmt.Sprintf("the header %q", name), "name it as in Accept: text/html")
	}
	for _, value := range values {
		if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return badTarget(fmt.Sprintf("the value %q of the header %s", value, name), "keep it on one line")
		}
	}
	return nil
}

// isToken reports whether text is valid as a method or header name.
func isToken(text string) bool {
	odd := func(r rune) bool {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		return !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	}
	return text != "" && !strings.ContainsFunc(text, odd)
}

// Dial opens one connection.
func (s *site) Dial(ctx context.Context) (net.Conn, error) {
	nc, err := dial(ctx, s.network, s.address)
	if err != nil || s.tls == nil {
		return nc, err
	}
	secured := tls.Client(nc, s.tls)
	if err := secured.HandshakeContext(ctx); err != nil {
		nc.Close()
		return nil, handshakeError(err)
	}
	return secured, nil
}

// String returns the URL.
func (s *site) String() string { return s.text }
