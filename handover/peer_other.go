//go:build !linux

package handover

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
)

// checkFolder refuses every folder.
func checkFolder(string) error {
	return fmt.Errorf("%w: sockets are not handed over on %s", errors.ErrUnsupported, runtime.GOOS)
}

type peer struct {
	conn    net.Conn
	pid     int
	trusted bool
}

func newPeer(conn net.Conn) *peer       { return &peer{conn: conn} }
func (*peer) send(message) error        { return errors.ErrUnsupported }
func (*peer) receive() (message, error) { return message{}, errors.ErrUnsupported }
func (*peer) exchange(context.Context, message) (message, error) {
	return message{}, errors.ErrUnsupported
}
