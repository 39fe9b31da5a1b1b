package drive

import (
	"bufio"
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

// ExchangeHTTP asks, and reads the answer, which must be the right one; nothing may come behind it.
func ExchangeHTTP(conn net.Conn, q web.Question) error {
	if _, err := conn.Write(q.Request); err != nil {
		return err
	}
	in := bufio.NewReader(conn)
	answer, err := http.ReadResponse(in, nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	switch {
	case err != nil:
		return err
	case answer.StatusCode != http.StatusOK || string(text) != q.Body:
		return fmt.Errorf("the server answers %s and %.40q", answer.Status, text)
	case in.Buffered() > 0:
		return fmt.Errorf("the server sends %d bytes behind its answer", in.Buffered())
	}
	return nil
}
