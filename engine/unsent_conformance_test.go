package engine_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/hone-go/hone/engine"
)

// Unsent is what a peer that does not read leaves behind, until it reads, or the connection
// ends.
func TestUnsent(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		conns := make(chan engine.Conn, 1)
		s := serve(t, g, echoLines(), func(s *engine.Server) {
			s.OnOpen = func(c engine.Conn) { conns <- c }
			s.Limits.HighWater, s.Limits.HardCap = 8<<20, 16<<20
		})
		client := s.dial(t)
		c := heard(t, conns, "OnOpen")
		if n := c.Unsent(); n != 0 {
			t.Errorf("%d bytes are unsent at the start", n)
		}
		piece := bytes.Repeat([]byte("x"), 64<<10)
		sent := 0
		for c.Unsent() < 1<<20 {
			if sent += len(piece); sent > 64<<20 {
				t.Fatal("the kernel accepts everything")
			}
			if err := c.Push(piece); err != nil {
				t.Fatalf("after %d bytes: %v", sent, err)
			}
		}
		if n := int64(c.Unsent()); !eventually(patience, func() bool { return s.Stats().Waiting == int64(c.Unsent()) }) {
			t.Errorf("%d bytes are unsent, and %d in all", n, s.Stats().Waiting)
		}
		if _, err := io.CopyN(io.Discard, client, int64(sent)); err != nil {
			t.Fatal(err)
		}
		if !eventually(patience, func() bool { return c.Unsent() == 0 }) {
			t.Errorf("%d bytes are unsent although all have arrived", c.Unsent())
		}
		client.Close()
		heard(t, s.ends, "the end")
		if n := c.Unsent(); n != 0 {
			t.Errorf("%d bytes are unsent after the end", n)
		}
	})
}
