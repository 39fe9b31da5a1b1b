package framed_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/wire"
)

// runSized is run with unusual buffer sizes as well, for which every message has to be
// moved, kept or grown.
func runSized(t *testing.T, test func(t *testing.T, e engine.Engine)) {
	t.Helper()
	run(t, test)
	for name, e := range map[string]engine.Engine{
		"buffered-1": engine.Buffered(1), "buffered-100": engine.Buffered(100),
	} {
		t.Run(name, func(t *testing.T) {
			t.Cleanup(countLeaks(t))
			test(t, e)
		})
	}
}

// marked answers with the request's length and content, so that lost and duplicated bytes
// are detected.
func marked(_ framed.Call, dst, req []byte) ([]byte, error) {
	dst = fmt.Appendf(dst, "%d:", len(req))
	return append(dst, req...), nil
}

// stream builds a conversation: what the client sends, and what a server with the handler
// marked must answer.
type stream struct {
	dialect   wire.Dialect
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
	s.out = s.dialect.Append(s.out, request)
	s.want = s.dialect.Append(s.want, reply)
}

// textOf returns n bytes in which no two parts are alike.
func textOf(rnd *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	return b
}

func TestBytesThatComeOneByOneAreServed(t *testing.T) {
	runSized(t, func(t *testing.T, e engine.Engine) {
		var s stream
		s.connect(1, []byte("key"))
		s.submit(2, nil)
		s.submit(3, []byte("x"))
		s.connect(4, nil)
		s.submit(5, bytes.Repeat([]byte("long"), 200))
		p := dial(t, serve(t, &framed.Server{Engine: e, Handler: framed.HandlerFunc(marked)}))
		if err := p.converse(s.want, func(w io.Writer) error {
			for i := range s.out {
				if _, err := w.Write(s.out[i : i+1]); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	})
}

// TestEverySplitGivesTheSameReplies sends mixed packets of all sizes in random pieces and
// compares the replies with those that package wire would write.
func TestEverySplitGivesTheSameReplies(t *testing.T) {
	n := seed(t)
	runSized(t, func(t *testing.T, e engine.Engine) {
		for _, d := range []wire.Dialect{wire.Standard, wire.Demo} {
			rnd := rand.New(rand.NewPCG(n, uint64(d)))
			s := stream{dialect: d}
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
			p := dial(t, serve(t, &framed.Server{Engine: e, Dialect: d, Handler: framed.HandlerFunc(marked)}))
			if err := p.converse(s.want, func(w io.Writer) error { return inPieces(w, s.out, rnd) }); err != nil {
				t.Fatalf("%v: %v", d, err)
			}
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

// TestFramesAroundBufferSizes puts frames that just fit, just do not fit and just fill a
// buffer before and after another frame.
func TestFramesAroundBufferSizes(t *testing.T) {
	const most = 65537
	runSized(t, func(t *testing.T, e engine.Engine) {
		addr := serve(t, &framed.Server{Engine: e, Handler: framed.HandlerFunc(marked), Limits: engine.Limits{FrameSize: most}})
		rnd := rand.New(rand.NewPCG(1, 2))
		for _, size := range []int{13, 14, 255, 256, 257, 511, 512, 513, 4095, 4096, 4097, 65535, 65536, most} {
			for _, before := range []int{0, 13, 16, 100} {
				var s stream
				if before > 0 {
					s.submit(1, textOf(rnd, before-13))
				}
				s.submit(2, textOf(rnd, size-13))
				s.submit(3, nil)
				if err := dial(t, addr).converse(s.want, whole(s.out)); err != nil {
					t.Fatalf("a frame of %d bytes after one of %d: %v", size, before, err)
				}
			}
		}
	})
}

func TestFrameOfExactlyFrameSizeIsServed(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		for _, limit := range []int{0, 100, 4096, 1 << 20} {
			s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(marked), Limits: engine.Limits{FrameSize: limit}}
			var c stream
			size := s.Limits.OrDefaults().FrameSize
			c.submit(1, make([]byte, size-13))
			c.submit(2, make([]byte, size-13))
			if len(c.out) != 2*size {
				t.Fatalf("two frames have %d bytes, want %d", len(c.out), 2*size)
			}
			if err := dial(t, serve(t, s)).converse(c.want, whole(c.out)); err != nil {
				t.Fatalf("FrameSize %d: %v", size, err)
			}
		}
	})
}

func TestTenThousandRequestsInOneWriteAreAnsweredInOrder(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(marked)}
		var c stream
		for id := range uint64(10_000) {
			c.submit(id, fmt.Append(nil, id))
		}
		p := dial(t, serve(t, s))
		if err := p.converse(c.want, whole(c.out)); err != nil {
			t.Fatal(err)
		}
		if st := s.Stats(); st.Requests != 10_000 || st.BytesIn != uint64(len(c.out)) {
			t.Errorf("counted %d requests and %d bytes in, want 10000 and %d", st.Requests, st.BytesIn, len(c.out))
		}
		eventually(t, "the bytes written are counted", func() bool { return s.Stats().BytesOut == uint64(len(c.want)) })
	})
}

// TestRepliesLargerThanTheHighWaterArriveWhole pipelines a request after each large
// reply, so that flow control has to pause and resume.
func TestRepliesLargerThanTheHighWaterArriveWhole(t *testing.T) {
	const size = 1 << 20
	text := textOf(rand.New(rand.NewPCG(1, 2)), size)
	handlers := map[string]framed.HandlerFunc{
		"appended": func(_ framed.Call, dst, req []byte) ([]byte, error) {
			if len(req) > 0 {
				return append(dst, req...), nil
			}
			return append(dst, text...), nil
		},
		"returned": func(_ framed.Call, dst, req []byte) ([]byte, error) {
			if len(req) > 0 {
				return req, nil
			}
			return text, nil
		},
		"late": func(c framed.Call, dst, req []byte) ([]byte, error) {
			if len(req) > 0 {
				return nil, c.Later().Send(req)
			}
			return nil, c.Later().Send(text)
		},
	}
	run(t, func(t *testing.T, e engine.Engine) {
		for name, h := range handlers {
			s := &framed.Server{Engine: e, Handler: h, Limits: engine.Limits{HardCap: -1}}
			p := dial(t, serve(t, s))
			var out []byte
			for id := range uint64(5) {
				out = append(out, submit(2*id, "")...)
				out = append(out, submit(2*id+1, "small")...)
			}
			if _, err := p.Write(out); err != nil {
				t.Fatal(err)
			}
			replies := map[uint64][]byte{}
			for range 10 {
				packet := p.packet()
				replies[packet.ID] = packet.Content
			}
			for id := range uint64(5) {
				if !bytes.Equal(replies[2*id], text) {
					t.Errorf("%s: reply %d has %d bytes and differs from what was sent", name, 2*id, len(replies[2*id]))
				}
				if string(replies[2*id+1]) != "small" {
					t.Errorf("%s: reply %d is %.40q, want small", name, 2*id+1, replies[2*id+1])
				}
			}
			eventually(t, "no output is queued", func() bool { st := s.Stats(); return st.Waiting == 0 && st.Owed == 0 })
		}
	})
}

func TestManyConnectionsAtOnceEachGetTheirOwnReplies(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(marked)}
		addr := serve(t, s)
		crowd := testrun.Sized(100, 200)
		inParallel(t, crowd, func(i int) error {
			nc, err := net.Dial("tcp", addr)
			if err != nil {
				return err
			}
			defer nc.Close()
			p := peerOf(t, nc)
			rnd := rand.New(rand.NewPCG(uint64(i), 1))
			for range 3 {
				var c stream
				for id := range uint64(20) {
					c.submit(uint64(i)<<32|id, textOf(rnd, rnd.IntN(300)))
				}
				if err := p.converse(c.want, func(w io.Writer) error { return inPieces(w, c.out, rnd) }); err != nil {
					return err
				}
			}
			return nil
		})
		ended(t, s, engine.PeerClosed, uint64(crowd))
		if st := s.Stats(); st.Accepted != uint64(crowd) || st.Open != 0 {
			t.Errorf("counted %d accepted, %d open, want %d and 0", st.Accepted, st.Open, crowd)
		}
	})
}

// TestCrowdComesAndGoes: many connections open and close three times, in random order:
// the server's structures grow, shrink and are reused, and no client gets another's data.
func TestCrowdComesAndGoes(t *testing.T) {
	const crowd = 1100 // more than a chunk of the server's slots
	again := testrun.Sized(500, crowd)
	start := seed(t)
	runPlain(t, func(t *testing.T, e engine.Engine) {
		rnd := rand.New(rand.NewPCG(start, 0))
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
			if c.Conn().Value() == nil {
				c.Conn().SetValue(string(req))
			}
			return append(dst, c.Conn().Value().(string)...), nil
		})}
		addr := serve(t, s)
		var crowded []*peer
		for round, stay := range []int{crowd / 3, 10, 0} {
			size := crowd
			if round > 0 {
				size = again
			}
			for len(crowded) < size {
				crowded = append(crowded, dial(t, addr))
			}
			for i, p := range crowded {
				p.send(submit(1, p.LocalAddr().String()))
				p.want(ack(1, p.LocalAddr().String()))
				p.send(submit(2, fmt.Sprint("again ", round, i)))
				p.want(ack(2, p.LocalAddr().String()))
			}
			rnd.Shuffle(size, func(i, j int) { crowded[i], crowded[j] = crowded[j], crowded[i] })
			for _, p := range crowded[stay:] {
				p.Close()
			}
			crowded = crowded[:stay]
			eventually(t, "closed connections are no longer counted", func() bool { return s.Stats().Open == stay })
		}
	})
}

// TestPingPongIsFlushedBeforeABufferIsFull: a client that waits for each reply never
// hangs, however small the replies are.
func TestPingPongIsFlushedBeforeABufferIsFull(t *testing.T) {
	runSized(t, func(t *testing.T, e engine.Engine) {
		p := dial(t, serve(t, &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo)}))
		for id := range uint64(300) {
			p.send(submit(id, "ping"))
			p.want(ack(id, "ping"))
		}
	})
}

func TestReplyDoesNotWaitForTheRestOfTheNextRequest(t *testing.T) {
	runSized(t, func(t *testing.T, e engine.Engine) {
		p := dial(t, serve(t, &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo)}))
		next := submit(2, strings.Repeat("b", 5000))
		for cut := 1; cut < len(next); cut += 1 + cut {
			p.send(append(submit(1, "a"), next[:cut]...))
			p.want(ack(1, "a"))
			p.send(next[cut:])
			p.want(ack(2, strings.Repeat("b", 5000)))
		}
	})
}

func TestEverythingAskedBeforeAHalfCloseIsAnswered(t *testing.T) {
	runSized(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(marked)}
		p := dial(t, serve(t, s))
		var c stream
		for id := range uint64(2000) {
			c.submit(id, fmt.Append(nil, id))
		}
		p.send(c.out)
		p.closeWrite()
		p.want(c.want)
		p.wantEnd()
		ended(t, s, engine.PeerClosed, 1)
	})
}

// TestDataAndEndInOneWakeUpAreBothSeen: the last request and the end of the stream often
// arrive together, and neither may hide the other.
func TestDataAndEndInOneWakeUpAreBothSeen(t *testing.T) {
	each := uint64(testrun.Sized(15, 40))
	run(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo)}
		addr := serve(t, s)
		inParallel(t, 8, func(int) error {
			for id := range each {
				nc, err := net.Dial("tcp", addr)
				if err != nil {
					return err
				}
				p := peerOf(t, nc)
				if err := p.converse(ack(id, "last"), func(w io.Writer) error {
					w.Write(submit(id, "last"))
					return nc.(*net.TCPConn).CloseWrite()
				}); err != nil {
					return err
				}
				if rest, err := io.ReadAll(p.r); err != nil || len(rest) > 0 {
					return fmt.Errorf("at the end: %q, %v", rest, err)
				}
				nc.Close()
			}
			return nil
		})
		ended(t, s, engine.PeerClosed, 8*each)
	})
}

func TestHalfCloseWaitsForLateReplies(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		replies := make(chan framed.Reply, 50)
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
			if string(req) == "late" {
				replies <- c.Later()
			}
			return append(dst, req...), nil
		})}
		p := dial(t, serve(t, s))
		var out []byte
		for id := range uint64(50) {
			out = append(out, submit(id, "late")...)
		}
		p.send(append(out, submit(50, "inline")...))
		p.closeWrite()
		p.want(ack(50, "inline"))
		for id := range uint64(50) {
			if err := heard(t, replies, "a handler").Send([]byte("done")); err != nil {
				t.Fatal(err)
			}
			p.want(ack(id, "done"))
		}
		p.wantEnd()
		ended(t, s, engine.PeerClosed, 1)
	})
}

func TestUnfinishedFrameBeforeAHalfCloseIsLetGo(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo)}
		p := dial(t, serve(t, s))
		p.send(append(submit(1, "whole"), submit(2, "cut off")[:15]...))
		p.closeWrite()
		p.want(ack(1, "whole"))
		p.wantEnd()
		ended(t, s, engine.PeerClosed, 1)
	})
}

// TestQuietConnectionServesOn: an engine may reclaim a connection's memory in the middle
// of anything, after eight idle periods. The shortest limit sets the period, and
// LingerTime does not matter here.
func TestQuietConnectionServesOn(t *testing.T) {
	waiting.run(t, func(t *testing.T, e engine.Engine) {
		owed := make(chan framed.Reply, 1)
		addr := serve(t, &framed.Server{
			Engine: e,
			Limits: engine.Limits{LingerTime: time.Millisecond},
			Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
				if len(req) == 0 {
					owed <- c.Later()
				}
				return append(dst, req...), nil
			}),
		})
		inParallel(t, 10, func(i int) error {
			p, err := dialed(t, addr)
			if err != nil {
				return err
			}
			quiet := func() { <-time.After(time.Duration(40+5*i) * time.Millisecond) }
			request := submit(1, strings.Repeat("x", 300*i+1))
			reply := ack(1, strings.Repeat("x", 300*i+1))
			for range 3 {
				if err := p.converse(reply, whole(request)); err != nil {
					return fmt.Errorf("after a while: %w", err)
				}
				quiet()
				if err := p.converse(reply, func(w io.Writer) error {
					w.Write(request[:len(request)/2])
					quiet()
					return whole(request[len(request)/2:])(w)
				}); err != nil {
					return fmt.Errorf("a while into a request: %w", err)
				}
			}
			if i > 0 {
				quiet()
				p.closeWrite()
				if rest, err := io.ReadAll(p.r); err != nil || len(rest) > 0 {
					return fmt.Errorf("at the end: %q, %w", rest, err)
				}
				return nil
			}
			p.Write(submit(2, ""))
			r := <-owed
			quiet()
			if err := errors.Join(r.Conn().Push(3, nil), r.Send([]byte("late"))); err != nil {
				return fmt.Errorf("a while into a late reply: %w", err)
			}
			return p.converse(append(frame(wire.Deliver, 3, 0, ""), ack(2, "late")...), whole(nil))
		})
	})
}
