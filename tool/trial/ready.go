package trial

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/hone-go/hone/tool/load/codec"
)

// Ready is the readiness check of a server, as ParseReady reads it.
type Ready struct {
	text string
	url  string         // must answer with a 2xx
	addr string         // must accept connections
	line *regexp.Regexp // must appear in the output
}

// ParseReady parses
//
//	tcp                the target accepts connections
//	tcp:HOST:PORT      that address does
//	http://HOST:PORT/PATH, or https    a GET is answered with 200 to 299
//	line:EXPRESSION    a line of its output matches the regular expression
func ParseReady(text string) (Ready, error) {
	r := Ready{text: text}
	kind, rest, _ := strings.Cut(text, ":")
	switch kind {
	case "tcp":
		if r.addr = strings.TrimPrefix(rest, "//"); r.addr != "" {
			if _, _, err := net.SplitHostPort(r.addr); err != nil {
				return Ready{}, fmt.Errorf("%w; write tcp, or tcp:HOST:PORT", err)
			}
		}
		return r, nil
	case "http", "https":
		if _, err := http.NewRequest(http.MethodGet, text, nil); err != nil {
			return Ready{}, err
		}
		r.url = text
		return r, nil
	case "line":
		var err error
		if r.line, err = regexp.Compile(rest); err != nil {
			return Ready{}, fmt.Errorf("%w; see https://go.dev/s/re2syntax", err)
		}
		return r, nil
	}
	return Ready{}, fmt.Errorf("%q is not a readiness check; write tcp, tcp:HOST:PORT, http://…, or line:EXPRESSION", text)
}

// String returns the text that ParseReady reads.
func (r Ready) String() string { return r.text }

func (r Ready) listen() *hearing { return &hearing{ready: r, yes: make(chan struct{})} }

// look checks once.
func (r Ready) look(ctx context.Context, target codec.Target) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	switch {
	case r.line != nil:
		return errNotSaid
	case r.url != "":
		return answers(ctx, r.url)
	case r.addr != "":
		c, err := new(net.Dialer).DialContext(ctx, "tcp", r.addr)
		if err != nil {
			return err
		}
		return c.Close()
	}
	return dials(ctx, target)
}

// answers sends one GET on a new connection.
func answers(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("it answers %s", response.Status)
	}
	_, err = io.CopyN(io.Discard, response.Body, 1<<20)
	if err == io.EOF {
		err = nil
	}
	return err
}
