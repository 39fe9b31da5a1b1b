package engine

import (
	"syscall"
	"testing"

	"github.com/hone-go/hone/internal/sys"
)

// interrupted is a protocol in whose visits something else happens.
type interrupted struct{ by func() }

func (p *interrupted) Advance(t *Turn, in []byte) (used, need int, err error) {
	if len(in) > 0 && t.Room() {
		t.Mark(0)
		p.by()
	}
	return len(in), 1, nil
}

func (*interrupted) Refuse(dst, _ []byte, _ Reason) []byte { return dst }

// Whoever takes a loop over in the middle of a visit polls, into the events of which the visit has
// one. That the peer reads again must not be lost with it: the queued output follows at once.
func TestEventIsReadBeforeTheVisit(t *testing.T) {
	full := true
	poll, fds := polledPair(t, func(c sys.Call, n int) (int, error) {
		if c == sys.CallWrite && full {
			n = 0
		}
		return n, nil
	})
	var ready [4]sys.Ready
	s := bare(Limits{})
	s.how = Events(Inline)
	s.spoken.Store(&[]*spoken{newSpoken(&interrupted{func() { ready[0] = sys.Ready{} }})})
	l := &loop{}
	l.loop, l.srv, l.poll = l, s, poll
	l.Bell.Init(func() {})
	l.chunks.Store(&[]chunk{})
	k := taken(t, &l.shard)
	k.owner().begin(&arrival{}, sys.Socket(fds[0]), nil)
	k.held().release()
	if err := k.conn().Push([]byte("pushed")); err != nil {
		t.Fatal(err)
	}
	k.s.mu.Lock()
	k.held().write(k.held().attach(), false)
	k.held().release()
	syscall.Write(fds[1], []byte("a request"))
	if n := poll.Now(ready[:]); n != 1 || !ready[0].In() || !ready[0].Out() {
		t.Fatalf("%d events: %+v", n, ready[0])
	}
	full = false
	d := &workspace{in: make([]byte, loopRead), ref: k}
	d.ref.onReady(d, &ready[0])
	got := make([]byte, 64)
	if n, err := syscall.Read(fds[1], got); string(got[:max(0, n)]) != "pushed" {
		t.Errorf("the peer has received %q, %v", got[:max(0, n)], err)
	}
	if ready[0].In() {
		t.Error("there was no visit")
	}
}
