package codec

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/hone-go/hone/wire"
)

// greet does what begins a connection until ctx ends, and closes the connection if that fails.
func greet(ctx context.Context, nc net.Conn, begin func(net.Conn) error) (net.Conn, error) {
	stop := context.AfterFunc(ctx, func() { nc.SetDeadline(time.Unix(1, 0)) }) // fails only if nc is closed
	err := begin(nc)
	stop()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		nc.Close()
		return nil, err
	}
	return nc, nil
}

// await reads an answer, which nothing may follow. decode returns its length, or 0 while it is
// incomplete.
func await(nc net.Conn, protocol string, decode func(in []byte) (used int, err error)) error {
	in, held := make([]byte, 512), 0
	for {
		n, ended := nc.Read(in[held:])
		held += n
		used, err := decode(in[:held])
		switch {
		case err != nil:
			return err
		case used > 0 && used < held:
			return unasked(protocol)
		case used > 0:
			return nil
		case ended != nil:
			return closedEarly(ended)
		case held >= mostHead:
			return tooLarge(mostHead)
		case held == len(in):
			in = append(in, make([]byte, held)...)
		}
	}
}

func closedEarly(why error) error {
	return fmt.Errorf("the server closed the connection within the handshake (%w)", why)
}

// named returns a hello whose first 16 # in a row are letters of the connection's own.
func named(hello string) []byte {
	name := rand.Text()[:16]
	return []byte(strings.Replace(hello, strings.Repeat("#", len(name)), name, 1))
}

// refused returns why a server does not accept a hello.
func refused(why error) error {
	try := "look into the server's log"
	if errors.Is(why, wire.Unauthorised) {
		try = "check what is in --credentials-file"
	}
	return &Error{Kind: Refused, Err: why, What: fmt.Sprintf("the server refuses the hello (%v)", why), Try: try}
}
