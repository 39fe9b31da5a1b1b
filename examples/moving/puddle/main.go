// Puddle is a client that was written for puddle, ported to package conns. before.txt is the
// original; docs/pools.md compares the names. It sends requests to examples/upper.
package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"time"

	"github.com/hone-go/hone/conns"
)

type session struct {
	*net.TCPConn // which the pool can check before it lends the session: it has a SyscallConn
	in           *bufio.Reader
}

func newPool(addr string) *conns.Pool[*session] {
	return conns.New(conns.Config[*session]{
		Dial: func(ctx context.Context) (*session, error) {
			nc, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
			if err != nil {
				return nil, err
			}
			return &session{nc.(*net.TCPConn), bufio.NewReader(nc)}, nil
		},
		Max: 8,
	})
}

func ask(ctx context.Context, pool *conns.Pool[*session], line string) (answer string, err error) {
	err = pool.Do(ctx, func(ctx context.Context, s *session) (err error) {
		answer, err = s.ask(ctx, line)
		return err
	})
	return answer, err
}

func (s *session) ask(ctx context.Context, line string) (string, error) {
	deadline, _ := ctx.Deadline()
	s.SetDeadline(deadline)
	defer s.SetDeadline(time.Time{})
	if _, err := fmt.Fprintln(s, line); err != nil {
		return "", err
	}
	return s.in.ReadString('\n')
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	pool := newPool("127.0.0.1:7001")
	defer pool.Close(ctx)
	fmt.Println(ask(ctx, pool, "hello"))
}
