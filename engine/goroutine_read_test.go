package engine

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/hone-go/hone/engine/internal/transport"
	"github.com/hone-go/hone/internal/sys"
)

// On a busy machine the short deadline of a drain's read can pass before the read begins.
// Then unread bytes are read again, not dropped.
func TestDrainReadsAgainAfterALateDeadline(t *testing.T) {
	if !sys.Readiness {
		t.Skip("this system does not report unread bytes")
	}
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	client, err := net.Dial("unix", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	nc, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	client.Write([]byte("request\n"))

	s := bare(Limits{})
	g := &goroutineConn{ref: *s.bareConn(), Stream: transport.StreamOf(nc, &s.goroutines)}
	g.inflight.g = g
	g.ref.x.Store(&g.inflight)
	nc.SetReadDeadline(time.Now().Add(-time.Second))
	g.left = len("request\n") + 100
	g.readDrain(&workspace{in: make([]byte, 64), ref: g.ref, g: g})
	if g.left != len("request\n") {
		t.Errorf("%d bytes left to read after the deadline, want %d", g.left, len("request\n"))
	}
	nc.(*net.UnixConn).CloseRead()
	g.left = 100
	g.readDrain(&workspace{in: make([]byte, 64), ref: g.ref, g: g})
	if g.left == 100 {
		t.Error("a drain continues to read after the end of the input")
	}
}
