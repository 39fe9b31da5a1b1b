package engine

import (
	"io"
	"log/slog"
	"net"
	"testing"
	"time"
)

// longAnswer consumes all its input, and then replies in two parts.
type longAnswer struct {
	holds chan int // size of the read buffer during the visit
}

func (p longAnswer) Advance(t *Turn, in []byte) (used, need int, err error) {
	if len(in) < 4 {
		return 0, 4 - len(in), nil
	}
	if !t.Room() {
		return 0, 0, nil
	}
	t.Mark(0)
	if _, err := t.More(len(in), 0); err != nil {
		return 0, 0, err
	}
	for _, part := range []string{"one ", "two\n"} {
		t.Out = append(t.Out, part...)
		if err := t.Flush(); err != nil {
			return 0, 0, err
		}
	}
	p.holds <- len(t.d.in)
	return 0, 0, nil
}

func (longAnswer) Refuse(dst, _ []byte, _ Reason) []byte { return dst }

// Before a long reply More returns the visit's read buffer; there may be thousands of
// such replies, and their loops continue.
func TestLongAnswerHoldsNoReadBuffer(t *testing.T) {
	for _, e := range All() {
		t.Run(e.Name(), func(t *testing.T) {
			p := longAnswer{make(chan int, 1)}
			srv := &Server{Protocol: p, Engine: e, Logger: slog.New(slog.DiscardHandler)}
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			served := make(chan error, 1)
			go func() { served <- srv.Serve(ln) }()
			defer func() { srv.Close(); <-served }()
			nc, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			nc.SetDeadline(time.Now().Add(20 * time.Second))
			for range 3 {
				io.WriteString(nc, "ask\n")
				got := make([]byte, len("one two\n"))
				if _, err := io.ReadFull(nc, got); string(got) != "one two\n" {
					t.Fatalf("answered %q, %v", got, err)
				}
				if n := <-p.holds; n > helperRead {
					t.Errorf("the visit holds a read buffer of %d bytes, want at most %d", n, helperRead)
				}
			}
		})
	}
}
