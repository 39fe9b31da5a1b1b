package framed_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/wire"
)

// marked answers with the request's length and content, so that lost and duplicated bytes
// are detected.
func marked(_ framed.Call, dst, req []byte) ([]byte, error) {
	dst = fmt.Appendf(dst, "%d:", len(req))
	return append(dst, req...), nil
}

// stream builds a conversation: what the client sends, and what a server with the handler
// marked must answer.
type stream struct {
	out, want []byte
	cuts      []int // where frames begin in out
}

func (s *stream) submit(id uint64, content []byte) {
	reply, _ := marked(framed.Call{}, nil, content)
	s.add(wire.Packet{Command: wire.Submit, ID: id, Content: content}, wire.Packet{Command: wire.SubmitAck, ID: id, Content: reply})
}

func (s *stream) connect(id uint64, content []byte) {
	s.add(wire.Packet{Command: wire.Conn, ID: id, Content: content}, wire.Packet{Command: wire.ConnAck, ID: id})
}

func (s *stream) add(request, reply wire.Packet) {
	s.cuts = append(s.cuts, len(s.out))
	s.out = wire.Append(s.out, request)
	s.want = wire.Append(s.want, reply)
}

// textOf returns n bytes in which no two parts are alike.
func textOf(rnd *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	return b
}

// TestEverySplitGivesTheSameReplies sends mixed packets of all sizes in random pieces and
// compares the replies with those that package wire would write.
func TestEverySplitGivesTheSameReplies(t *testing.T) {
	n := seed(t)
	run(t, func(t *testing.T, e engine.Engine) {
		rnd := rand.New(rand.NewPCG(n, 0))
		var s stream
		for id := range uint64(250) {
			size := rnd.IntN(100)
			switch {
			case id == 100:
				size = 64<<10 - wire.HeaderSize - 9 // a frame of the default FrameSize
			case rnd.IntN(12) == 0:
				size = rnd.IntN(10_000)
			case rnd.IntN(40) == 0:
				size = rnd.IntN(64<<10 - wire.HeaderSize - 9)
			case rnd.IntN(6) == 0:
				size = 0
			}
			if rnd.IntN(8) == 0 {
				s.connect(id, textOf(rnd, size))
			} else {
				s.submit(id, textOf(rnd, size))
			}
		}
		p := dial(t, serve(t, &framed.Server{Engine: e, Handler: framed.HandlerFunc(marked)}))
		if err := p.converse(s.want, func(w io.Writer) error { return inPieces(w, s.out, rnd) }); err != nil {
			t.Fatal(err)
		}
	})
}

// inPieces writes b in pieces of random lengths, mostly small ones.
func inPieces(w io.Writer, b []byte, rnd *rand.Rand) error {
	for len(b) > 0 {
		n := 1 + rnd.IntN(1<<rnd.IntN(16))
		n = min(n, len(b))
		if _, err := w.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}
