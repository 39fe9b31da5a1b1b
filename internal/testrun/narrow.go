package testrun

import "net"

// Narrow is a listener whose connections have small send buffers, so that a peer that does not read has
// an effect after some hundred KiB instead of some MiB.
type Narrow struct{ net.Listener }

// Accept returns the next connection.
func (l Narrow) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if tcp, ok := nc.(*net.TCPConn); ok {
		tcp.SetWriteBuffer(64 << 10)
	}
	return nc, err
}
