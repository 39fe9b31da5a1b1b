package server_test

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"github.com/hone-go/hone/articles/claim"
	"github.com/hone-go/hone/tool/admin"
	"github.com/hone-go/hone/wire"
)

// TestStages checks that all stages answer the same requests with the same bytes, one at a time and
// pipelined, and count them.
func TestStages(t *testing.T) {
	for _, name := range []string{"direct", "buffered", "pooled", "hone"} {
		t.Run(name, func(t *testing.T) {
			s := claim.Start(t, name)
			conn, err := net.Dial("tcp", s.Addr)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(time.Minute))
			const n = 200
			var requests, want []byte
			for id := range uint64(n) {
				requests = wire.Append(requests, wire.Packet{Command: wire.Submit, ID: id, Content: bytes.Repeat([]byte{'x'}, int(id))})
				want = wire.Append(want, wire.Packet{Command: wire.SubmitAck, ID: id})
				if id == 0 {
					swap(t, conn, requests, want)
				}
			}
			swap(t, conn, requests, want)
			stats, err := admin.Open(s.Admin)
			if err != nil {
				t.Fatal(err)
			}
			defer stats.Close()
			now, err := stats.Read(t.Context())
			if err != nil || now.Connections != 1 || now.RequestsReceived != n+1 || now.ResponsesSent > n+1 {
				t.Errorf("counted %+v, %v", now, err)
			}
		})
	}
}

func swap(t *testing.T, conn net.Conn, request, want []byte) {
	t.Helper()
	if _, err := conn.Write(request); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(want))
	if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%x was answered with %x, want %x: %v", request, got, want, err)
	}
}
