package routes

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
)

// wholeRequest is what a client sends for one route of GitHub's, and wholeValue
// what is answered.
const (
	wholeRequest = "GET /repos/hone-go/hone/issues/17/comments HTTP/1.1\r\nHost: h.example\r\n\r\n"
	wholeValue   = "hone-go"
)

// A client asks a server of its own over loopback.
type client struct {
	conn    net.Conn
	answers *bufio.Reader
	srv     *http.Server
	ended   chan error
}

func newClient(h http.Handler) (*client, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &client{srv: &http.Server{Handler: h}, ended: make(chan error, 1)}
	go func() { c.ended <- c.srv.Serve(ln) }()
	if c.conn, err = net.Dial("tcp", ln.Addr().String()); err != nil {
		c.close()
		return nil, err
	}
	c.answers = bufio.NewReader(c.conn)
	return c, nil
}

func (c *client) close() {
	if c.conn != nil {
		c.conn.Close()
	}
	c.srv.Close()
	<-c.ended
}

// ask sends one request and reads its answer.
func (c *client) ask() error {
	if _, err := c.conn.Write([]byte(wholeRequest)); err != nil {
		return err
	}
	line, err := c.answers.ReadSlice('\n')
	if err != nil || !strings.HasPrefix(string(line), "HTTP/1.1 200") {
		return fmt.Errorf("answer %q, %w", line, err)
	}
	for len(line) > 2 {
		if line, err = c.answers.ReadSlice('\n'); err != nil {
			return err
		}
	}
	_, err = c.answers.Discard(len(wholeValue))
	return err
}

// ServeHTTP has the request asked over loopback, so that a client can be in a
// [Contest]. It panics when the server does not answer as it should.
func (c *client) ServeHTTP(http.ResponseWriter, *http.Request) {
	if err := c.ask(); err != nil {
		panic(fmt.Errorf("routes: asking over loopback: %w", err))
	}
}

// Whole is a contest of whole requests: through net/http over loopback, one after
// the other, with an answer of one value. The servers run until close.
func Whole() (c Contest, close func(), err error) {
	github := Sets()[3]
	c = Contest{Name: "Whole/" + github.Name, requests: []*http.Request{nil}}
	var all []*client
	close = func() {
		for _, one := range all {
			one.close()
		}
	}
	for _, router := range Routers() {
		one, err := newClient(router.Reply(github.Routes))
		if err != nil {
			close()
			return Contest{}, nil, fmt.Errorf("routes: starting the server of %s: %w", router.Name, err)
		}
		all = append(all, one)
		c.names, c.handlers = append(c.names, router.Name), append(c.handlers, one)
	}
	return c, close, nil
}
