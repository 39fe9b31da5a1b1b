package lab

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/hone-go/hone/wire"
)

// TestServersSayTheSame checks that all compared servers answer the same requests with
// the same bytes, one at a time, pipelined, and in pieces.
func TestServersSayTheSame(t *testing.T) {
	for name := range idleStages() {
		t.Run(name, func(t *testing.T) {
			if _, err := stages()[name](); errors.Is(err, errors.ErrUnsupported) {
				t.Skipf("%s: this system has no epoll: run it on Linux", name)
			}
			s := startStage(t, name)
			conn := dial(t, s.addr)
			defer conn.Close()
			var requests, want []byte
			for id := range uint64(200) {
				one := wire.Standard.Append(nil, wire.Packet{Command: wire.Submit, ID: id, Content: bytes.Repeat([]byte{'x'}, int(id))})
				ack := wire.Standard.Append(nil, wire.Packet{Command: wire.SubmitAck, ID: id})
				requests, want = append(requests, one...), append(want, ack...)
				if id < 3 { // one at a time
					swap(t, conn, one, ack)
				}
			}
			swap(t, conn, requests, want) // pipelined, and split into pieces
		})
	}
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return conn
}

func swap(t *testing.T, conn net.Conn, request, want []byte) {
	t.Helper()
	if _, err := conn.Write(request); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(want))
	if _, err := io.ReadFull(conn, got); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("%x was answered with %x, want %x", request, got, want)
	}
}
