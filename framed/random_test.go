package framed_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/wire"
)

// The random test plays stories, generated from a seed, to a server on every engine. The
// expected result of each is known before it is played (see story.tell), so on any engine
// and with any timing the visible history is the same: replies and pushes of one
// goroutine in order, late replies in any order, then the end.

// The first byte of a request determines how it is answered.
const (
	atOnce   = 'o' // with its content
	withCode = 'c' // with the code in its second byte
	large    = 'g' // with the number of bytes in its next four
	pushing  = 'p' // with its content, and a push of it
	late     = 'l' // with its content, by another goroutine
	lateCode = 'f' // with the code in its second byte, by another goroutine
	soon     = 's' // with its content, late but within the handler
	panics   = 'x' // with a panic
)

// event is a packet as the client sees it.
type event struct {
	command wire.Command
	result  wire.Result
	id      uint64
	size    int
	hash    uint64
}

var eventSeed = maphash.MakeSeed()

func eventOf(p wire.Packet) event {
	return event{p.Command, p.Result, p.ID, len(p.Content), maphash.Bytes(eventSeed, p.Content)}
}

func (e event) String() string {
	return fmt.Sprintf("%v %x, %v, %d bytes", e.command, e.id, e.result, e.size)
}

// step is one action of a client.
type step struct {
	do    deed
	bytes []byte // to write
	seed  uint64 // of the split
	wait  int    // packets that must have arrived
}

type deed uint8

const (
	writeWhole  deed = iota
	writeSplit       // in pieces
	pauseReads       // for a moment, or until resumeReads
	resumeReads      //
	awaitAll         // every expected reply
	halfClose        // and read to the end
	hangUp           // when everything is answered
	resetConn        // at once
	beRefused        // read to the end, which the server sends
)

// story is the script of one client with the expected history.
type story struct {
	steps   []step
	inOrder []event          // replies by the connection's own goroutine
	pushes  []event          // likewise
	anyTime map[uint64]event // late replies by id
	packets int
	reset   bool          // everything above may arrive, up to some point
	why     engine.Reason // why the connection ends
}

const (
	pushBit    = 1 << 63
	largeReply = 300 << 10
)

// newStory generates n steps.
func newStory(rnd *rand.Rand, n int) *story {
	s := &story{anyTime: map[uint64]event{}, why: engine.PeerClosed}
	id := uint64(1)
	for range n {
		switch k := rnd.IntN(20); {
		case k < 8:
			s.steps = append(s.steps, step{do: writeWhole, bytes: s.ask(rnd, &id, 1)})
		case k < 12:
			s.steps = append(s.steps, step{do: writeSplit, bytes: s.ask(rnd, &id, 1+rnd.IntN(3)), seed: rnd.Uint64()})
		case k < 16:
			s.steps = append(s.steps, step{do: writeWhole, bytes: s.ask(rnd, &id, rnd.IntN(30))})
		case k < 17:
			s.steps = append(s.steps, step{do: pauseReads})
		case k < 19:
			s.steps = append(s.steps, step{do: resumeReads})
		default:
			s.steps = append(s.steps, step{do: awaitAll, wait: s.packets})
		}
	}
	more := s.ask(rnd, &id, rnd.IntN(5))
	switch k := rnd.IntN(10); {
	case k < 4:
		s.steps = append(s.steps, step{do: writeWhole, bytes: more}, step{do: halfClose})
	case k < 6:
		s.steps = append(s.steps, step{do: writeSplit, bytes: more, seed: rnd.Uint64()}, step{do: hangUp, wait: s.packets})
	case k < 8:
		s.steps = append(s.steps, step{do: writeWhole, bytes: more}, step{do: resetConn})
		s.reset, s.why = true, engine.PeerReset
	case k < 9:
		s.inOrder = append(s.inOrder, eventOf(wire.Packet{Command: wire.SubmitAck, ID: id, Result: wire.Internal}))
		more = append(more, submit(id, string(panics))...)
		more = append(more, submit(id+1, "never served")...)
		s.steps = append(s.steps, step{do: writeWhole, bytes: more}, step{do: beRefused})
		s.why = engine.Panicked
	default:
		s.inOrder = append(s.inOrder, eventOf(wire.Packet{Command: wire.ConnAck, Result: wire.Malformed}))
		more = append(more, 0, 0, 0, byte(rnd.IntN(5)), 'x')
		s.steps = append(s.steps, step{do: writeWhole, bytes: more}, step{do: beRefused})
		s.why = engine.Malformed
	}
	return s
}

// ask appends n random requests to the story and returns their bytes.
func (s *story) ask(rnd *rand.Rand, id *uint64, n int) (out []byte) {
	kinds := []byte{atOnce, atOnce, atOnce, withCode, pushing, late, late, lateCode, soon}
	for range n {
		content := textOf(rnd, 5+rnd.IntN(1<<rnd.IntN(11)))
		content[0] = kinds[rnd.IntN(len(kinds))]
		content[1] = byte(1 + rnd.IntN(12)) // any code except OK
		request := wire.Packet{Command: wire.Submit, ID: *id, Content: content}
		switch k := rnd.IntN(100); {
		case k == 0:
			content[0] = large
			binary.BigEndian.PutUint32(content[1:], uint32(rnd.IntN(largeReply)))
		case k < 5:
			request.Command = wire.Conn
		}
		s.tell(request)
		out = wire.Standard.Append(out, request)
		*id++
	}
	return out
}

// tell records the expected answer to request.
func (s *story) tell(request wire.Packet) {
	reply := wire.Packet{Command: wire.SubmitAck, ID: request.ID, Content: request.Content}
	s.packets++
	if request.Command == wire.Conn {
		reply.Command, reply.Content = wire.ConnAck, nil
		s.inOrder = append(s.inOrder, eventOf(reply))
		return
	}
	switch request.Content[0] {
	case withCode, lateCode:
		reply.Result, reply.Content = wire.Result(request.Content[1]), nil
	case large:
		reply.Content = largeContent(nil, request)
	case pushing:
		s.packets++
		s.pushes = append(s.pushes, eventOf(wire.Packet{Command: wire.Deliver, ID: request.ID | pushBit, Content: request.Content}))
	}
	switch request.Content[0] {
	case late, lateCode, soon:
		s.anyTime[request.ID] = eventOf(reply)
	default:
		s.inOrder = append(s.inOrder, eventOf(reply))
	}
}

func largeContent(dst []byte, request wire.Packet) []byte {
	for i := range binary.BigEndian.Uint32(request.Content[1:]) {
		dst = append(dst, byte(uint64(i)*7+request.ID))
	}
	return dst
}

// promised is a late reply to be settled in any order.
type promised struct {
	reply   framed.Reply
	content []byte
}

// storyHandler answers as story.tell expects, with a goroutine that settles owed.
func storyHandler(owed chan<- promised) framed.HandlerFunc {
	return func(c framed.Call, dst, req []byte) ([]byte, error) {
		switch req[0] {
		case withCode:
			return append(dst, req...), wire.Result(req[1])
		case large:
			return largeContent(dst, wire.Packet{ID: c.ID(), Content: req}), nil
		case pushing:
			c.Conn().Push(c.ID()|pushBit, req)
			return append(dst, req...), nil
		case soon:
			c.Later().Send(req)
			return nil, nil
		case late, lateCode:
			owed <- promised{c.Later(), append([]byte(nil), req...)}
			return nil, nil
		case panics:
			c.Later() // no effect
			panic("the story says so")
		}
		return append(dst, req...), nil
	}
}

// settle sends owed replies in small groups, each in random order.
func settle(owed <-chan promised, rnd *rand.Rand) error {
	for first := range owed {
		batch := []promised{first}
		for more := true; more && len(batch) < 1+rnd.IntN(20); {
			select {
			case p, ok := <-owed:
				if more = ok; ok {
					batch = append(batch, p)
				}
			default:
				more = false
			}
		}
		rnd.Shuffle(len(batch), func(i, j int) { batch[i], batch[j] = batch[j], batch[i] })
		for _, p := range batch {
			err := error(nil)
			if p.content[0] == lateCode {
				err = p.reply.Fail(wire.Result(p.content[1]))
			} else {
				err = p.reply.Send(p.content)
			}
			if err != nil && err != framed.ErrClosed {
				return err
			}
		}
	}
	return nil
}

// play plays the story on p and returns an error when the history differs from the
// expected one.
func (s *story) play(p *peer) error {
	pauses := make(chan chan struct{}, len(s.steps))
	read := make(chan error, 1)
	var mu sync.Mutex
	came, over := 0, false
	news := sync.NewCond(&mu)
	go func() {
		err := s.read(p, pauses, func() {
			mu.Lock()
			came++
			mu.Unlock()
			news.Signal()
		})
		p.SetDeadline(time.Unix(1, 0)) // nobody reads further replies
		mu.Lock()
		over = true
		mu.Unlock()
		news.Signal()
		read <- err
	}()
	await := func(packets int) {
		mu.Lock()
		defer mu.Unlock()
		for came < packets && !over {
			news.Wait()
		}
	}
	until := make(chan struct{})
	resume := func() {
		close(until)
		until = make(chan struct{})
	}
	var failed error
	for _, step := range s.steps {
		if step.do != pauseReads && step.do != writeWhole && step.do != writeSplit {
			resume()
		}
		switch step.do {
		case writeWhole:
			_, failed = p.Write(step.bytes)
		case writeSplit:
			failed = inPieces(p.Conn, step.bytes, rand.New(rand.NewPCG(step.seed, 0)))
		case pauseReads:
			pauses <- until
		case awaitAll:
			await(step.wait)
		case halfClose:
			failed = p.Conn.(*net.TCPConn).CloseWrite()
		case hangUp:
			await(step.wait)
			failed = p.Close()
		case resetConn:
			p.reset()
		}
		if failed != nil {
			break
		}
	}
	return errors.Join(<-read, failed)
}

// read reads to the end and compares with the expected history.
func (s *story) read(p *peer, pauses <-chan chan struct{}, count func()) error {
	inOrder, pushes := s.inOrder, s.pushes
	answered := map[uint64]bool{}
	for {
		select {
		case until := <-pauses:
			select {
			case <-until:
			case <-time.After(10 * time.Millisecond):
			}
		default:
		}
		packet, err := p.tryPacket()
		if err != nil {
			missing := len(inOrder) + len(pushes) + len(s.anyTime) - len(answered)
			switch {
			case s.reset && !errors.Is(err, os.ErrDeadlineExceeded):
				return nil
			case missing > 0:
				return fmt.Errorf("the end (%w), but %d packets are missing; the next in order: %v; the next push: %v",
					err, missing, inOrder[:min(1, len(inOrder))], pushes[:min(1, len(pushes))])
			case err == io.EOF || errors.Is(err, net.ErrClosed):
				return nil
			}
			return err
		}
		got := eventOf(packet)
		want, isLate := s.anyTime[got.id]
		switch {
		case isLate && got.command == wire.SubmitAck:
			if got != want || answered[got.id] {
				return fmt.Errorf("got %v, want %v, once", got, want)
			}
			answered[got.id] = true
		case got.command == wire.Deliver:
			if len(pushes) == 0 || got != pushes[0] {
				return fmt.Errorf("got %v, want %v", got, pushes[:min(1, len(pushes))])
			}
			pushes = pushes[1:]
		default:
			if len(inOrder) == 0 || got != inOrder[0] {
				return fmt.Errorf("got %v, want %v", got, inOrder[:min(1, len(inOrder))])
			}
			inOrder = inOrder[1:]
		}
		count()
	}
}

// TestRandomStoriesHaveTheSameHistoryOnEveryEngine plays 30 at once.
func TestRandomStoriesHaveTheSameHistoryOnEveryEngine(t *testing.T) {
	const clients = 30
	steps := testrun.Sized(100, 200)
	start := seed(t)
	stories := make([]*story, clients)
	reasons := map[engine.Reason]uint64{}
	for i := range stories {
		stories[i] = newStory(rand.New(rand.NewPCG(start, uint64(i))), steps)
		reasons[stories[i].why]++
	}
	run(t, func(t *testing.T, e engine.Engine) {
		owed := make(chan promised, 64)
		var settlers sync.WaitGroup
		for i := range uint64(3) {
			settlers.Go(func() {
				if err := settle(owed, rand.New(rand.NewPCG(start, 1000+i))); err != nil {
					t.Errorf("a late reply: %v", err)
				}
			})
		}
		var mu sync.Mutex
		ends := map[framed.Conn]int{}
		s := &framed.Server{
			Engine:  e,
			Handler: storyHandler(owed),
			Limits:  engine.Limits{InFlight: 40, HardCap: -1},
			OnClose: func(c framed.Conn, _ engine.Reason) {
				mu.Lock()
				ends[c]++
				mu.Unlock()
			},
		}
		addr := serve(t, s)
		inParallel(t, clients, func(i int) error {
			p, err := dialed(t, addr)
			if err != nil {
				return err
			}
			defer p.Close()
			return stories[i].play(p)
		})
		eventually(t, "no connection is counted", func() bool {
			st := s.Stats()
			return st.Open == 0 && st.Owed == 0 && st.Waiting == 0
		})
		got := s.Stats().Ended
		for why, want := range reasons {
			if got[why] != want {
				t.Errorf("%d connections ended for %v, want %d (all: %v)", got[why], why, want, got)
			}
		}
		s.Close() // no handler runs any more
		close(owed)
		settlers.Wait()
		mu.Lock()
		defer mu.Unlock()
		if len(ends) != clients {
			t.Errorf("OnClose got %d connections, want %d", len(ends), clients)
		}
		for _, n := range ends {
			if n != 1 {
				t.Errorf("OnClose was called %d times for one connection", n)
			}
		}
	})
}
