package engine

import (
	"bytes"
	"io"
	"net"
	"runtime"
	"testing"
)

type oneLine struct{ visits int }

func (p *oneLine) Advance(t *Turn, in []byte) (used, need int, err error) {
	p.visits++
	if n := len(in); n > 0 && in[n-1] == '\n' {
		t.Mark(0)
		t.Out = append(t.Out, "ok\n"...)
		return n, 0, nil
	}
	return 0, 1, nil // a line protocol cannot know more
}
func (p *oneLine) Refuse(dst, _ []byte, _ Reason) []byte { return dst }

// A message whose protocol can only return need 1 must not be read byte by byte, into a
// new buffer each time, once it exceeds the largest pooled buffer.
func TestLongMessageOfNeedOne(t *testing.T) {
	p := &oneLine{}
	srv := &Server{Protocol: p, Engine: Buffered(0), Limits: Limits{FrameSize: 1 << 20}}
	ln, _ := net.Listen("tcp", "127.0.0.1:0")
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	defer func() { srv.Close(); <-served }()
	nc, _ := net.Dial("tcp", ln.Addr().String())
	defer nc.Close()
	const size = 192 << 10
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	nc.Write(append(bytes.Repeat([]byte("x"), size-1), '\n'))
	io.ReadFull(nc, make([]byte, 3))
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 16*size {
		t.Errorf("allocated %d MiB for a line of %d KiB, in %d visits", got>>20, size>>10, p.visits)
	}
}
