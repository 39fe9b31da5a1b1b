package drive

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/hone-go/hone/bench/client"
	"github.com/hone-go/hone/bench/web"
)

// askFor is a question as the client asks it.
func askFor(q web.Question) *client.HTTP {
	ask := &client.HTTP{Request: q.Request, Status: http.StatusOK, Body: []byte(q.Body)}
	if q.TLS {
		ask.TLS = &tls.Config{InsecureSkipVerify: true} // the server's certificate is of today
	}
	return ask
}

// ExchangeHTTP asks, and reads the answer, which must be the right one.
func ExchangeHTTP(conn net.Conn, q web.Question) error {
	body, _, err := AskHTTP(conn, q.Request)
	if err == nil && body != q.Body {
		err = fmt.Errorf("the server answers %.40q", body)
	}
	return err
}

// AskHTTP sends a request, and returns the answer's body, and all of the answer
// as it came. Its status must be 200, and nothing may come behind it.
func AskHTTP(conn net.Conn, request []byte) (body string, raw []byte, err error) {
	if _, err := conn.Write(request); err != nil {
		return "", nil, err
	}
	var came bytes.Buffer
	in := bufio.NewReader(io.TeeReader(conn, &came))
	answer, err := http.ReadResponse(in, nil)
	if err != nil {
		return "", nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	switch {
	case err != nil:
		return "", nil, err
	case answer.StatusCode != http.StatusOK:
		return "", nil, fmt.Errorf("the server answers %s and %.40q", answer.Status, text)
	case in.Buffered() > 0:
		return "", nil, fmt.Errorf("the server sends %d bytes behind its answer", in.Buffered())
	}
	return string(text), came.Bytes(), nil
}
