package conns_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"strings"
	"time"

	"github.com/hone-go/hone/conns"
)

// A typical line-based server: it answers "get NAME", one request at a time, without
// request ids. So each caller needs a connection of its own.
func Example() {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	defer ln.Close()
	go serveLines(ln)

	pool := conns.New(conns.Config[*session]{
		Dial: func(ctx context.Context) (*session, error) {
			nc, err := new(net.Dialer).DialContext(ctx, "tcp", ln.Addr().String())
			if err != nil {
				return nil, err
			}
			return &session{nc, bufio.NewReader(nc)}, nil
		},
		Max: 8,
	})
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	defer pool.Close(ctx)

	for _, name := range []string{"ann", "bob", "nobody"} {
		var phone string
		err := pool.Do(ctx, func(ctx context.Context, s *session) (err error) {
			phone, err = s.get(ctx, name)
			return err
		})
		fmt.Println(name, phone, errors.Is(err, errNoSuchName))
	}
	fmt.Println("dialled:", pool.Stats().Dials)
	// Output:
	// ann 555-ann false
	// bob 555-bob false
	// nobody  true
	// dialled: 1
}

// session is a connection with its read buffer.
type session struct {
	net.Conn
	in *bufio.Reader
}

// errNoSuchName is an ordinary reply of the server: the connection stays healthy.
var errNoSuchName = fmt.Errorf("there is no such name: %w", conns.ErrKeepConn)

// get makes one request. After any other error, such as a timeout, the connection must be
// closed: otherwise its late reply would go to the next borrower.
func (s *session) get(ctx context.Context, name string) (string, error) {
	deadline, _ := ctx.Deadline()
	s.SetDeadline(deadline)
	defer s.SetDeadline(time.Time{})
	if _, err := io.WriteString(s, "get "+name+"\n"); err != nil {
		return "", err
	}
	answer, err := s.in.ReadString('\n')
	switch answer = strings.TrimSuffix(answer, "\n"); {
	case err != nil:
		return "", err
	case answer == "-":
		return "", errNoSuchName
	}
	return answer, nil
}

// serveLines answers until the listener is closed.
func serveLines(ln net.Listener) {
	for {
		nc, err := ln.Accept()
		if err != nil {
			return
		}
		go func() {
			defer nc.Close()
			for lines := bufio.NewScanner(nc); lines.Scan(); {
				name := strings.TrimPrefix(lines.Text(), "get ")
				answer := "555-" + name
				if name == "nobody" {
					answer = "-"
				}
				fmt.Fprintln(nc, answer)
			}
		}()
	}
}
