package gateway

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/hone-go/hone/gateway/journal"
)

// stores has a client submit and wait for n records.
func (p *peer) stores(from, n uint64) {
	p.t.Helper()
	for seq := from; seq < from+n; seq++ {
		p.stored(seq, fmt.Sprint(seq))
	}
}

// sharing makes servers of one log.
func sharing(memory *Memory) func() *Server {
	open := views(memory)
	return func() *Server { return &Server{Log: open(), Shared: true, Checkpoint: 5} }
}

// TestSharedTrim has two servers on one log, of which one trims it. A start afterwards knows that the log was
// trimmed, and all sessions.
func TestSharedTrim(t *testing.T) {
	var memory Memory
	open := sharing(&memory)
	trims, other := serve(t, open()), serve(t, open())
	p, q := trims.peer(t), other.peer(t)
	p.hello(first("a"))
	q.hello(first("b"))
	p.stores(1, 20)
	_, next, _ := memory.Bounds()
	other.tick() // a quiet server follows
	waitFor(t, "the other server", func() bool { return other.Stats().Position == next-1 })
	must(t, trims.Trim(soon(t), 1<<60))
	begins, _, _ := memory.Bounds()
	if begins < 5 {
		t.Fatalf("the log begins at position %d", begins)
	}
	q.stores(1, 20) // with checkpoints
	starts := open()
	must(t, starts.Recover(soon(t)))
	defer starts.Close()
	if n := starts.Stats().Clients; n != 2 {
		t.Errorf("%d clients", n)
	}
	for client, last := range map[string]uint64{"a": 20, "b": 20} {
		if known := starts.sessions.byClient[client]; known == nil || known.durable.Load() != last {
			t.Errorf("client %s: %+v", client, known)
		}
	}
	if _, err := Check(soon(t), &memory, nil); err != nil {
		t.Error(err)
	}
}

// TestTrimOvertakes trims a log beyond what another server has read of it. That one may have missed
// anything: it stores nothing more, and a start knows everything.
func TestTrimOvertakes(t *testing.T) {
	var memory Memory
	open := sharing(&memory)
	trims, behind := serve(t, open()), serve(t, open())
	q := behind.peer(t)
	q.hello(first("b"))
	p := trims.peer(t)
	p.hello(first("a"))
	p.stores(1, 20)
	must(t, trims.Trim(soon(t), 1<<60))
	_, before, _ := memory.Bounds()
	q.submit(1, "x")
	q.closed()
	var trimmed *journal.TrimmedError
	if err := behind.ended(t); !errors.As(err, &trimmed) {
		t.Errorf("the server that is behind ends with %v", err)
	}
	if _, now, _ := memory.Bounds(); now != before {
		t.Errorf("it has stored something: the next position was %d and is %d", before, now)
	}
	starts := open()
	must(t, starts.Recover(soon(t)))
	defer starts.Close()
}

// overtaken is a log that is trimmed after a start has asked for its bounds.
type overtaken struct {
	*view
	once sync.Once
	trim func()
}

func (o *overtaken) Bounds() (first, next uint64, err error) {
	first, next, err = o.view.Bounds()
	o.once.Do(o.trim)
	return first, next, err
}

// TestStartWhileTrimmed: a start that another server's Trim overtakes begins again.
func TestStartWhileTrimmed(t *testing.T) {
	var memory Memory
	open := views(&memory)
	trims := serve(t, &Server{Log: open(), Shared: true, Checkpoint: 5})
	p := trims.peer(t)
	p.hello(first("a"))
	p.stores(1, 3)
	log := &overtaken{view: open(), trim: func() {
		p.stores(4, 20)
		if err := trims.Trim(soon(t), 1<<60); err != nil {
			t.Error(err)
		}
	}}
	starts := &Server{Log: log, Shared: true}
	must(t, starts.Recover(soon(t)))
	defer starts.Close()
	if known := starts.sessions.byClient["a"]; known == nil || known.durable.Load() != 23 {
		t.Errorf("%+v", known)
	}
}

// TestForeignPurge: a log whose beginning something else has deleted is refused, although a checkpoint is left.
func TestForeignPurge(t *testing.T) {
	for _, trimmed := range []bool{false, true} {
		var memory Memory
		open := sharing(&memory)
		s := serve(t, open())
		p := s.peer(t)
		p.hello(first("a"))
		p.stores(1, 20)
		says := "honed did not trim it"
		if trimmed {
			must(t, s.Trim(soon(t), 6))
			says = "trimmed it to position 6 only"
		}
		must(t, s.Shutdown(soon(t)))
		_, next, _ := memory.Bounds()
		if err := memory.Trim(soon(t), next-1); err != nil { // the checkpoint at the end is left
			t.Fatal(err)
		}
		var refusal *journal.Refusal
		err := open().Recover(soon(t))
		if text := fmt.Sprint(err); !errors.As(err, &refusal) || !strings.Contains(text, says) {
			t.Errorf("trimmed %v: %v", trimmed, err)
		}
		if err := memory.Trim(soon(t), next); err != nil { // nothing is left
			t.Fatal(err)
		}
		if err := open().Recover(soon(t)); !errors.As(err, &refusal) {
			t.Errorf("trimmed %v, empty: %v", trimmed, err)
		}
		if text := fmt.Sprint(open().Recover(soon(t))); !strings.Contains(text, fmt.Sprintf("--accept-loss 1-%d:", next-1)) {
			t.Errorf("trimmed %v: %s", trimmed, text)
		}
		accepting := open()
		accepting.AcceptLoss = journal.Range{First: 1, Last: next - 2}
		if err := accepting.Recover(soon(t)); !errors.As(err, &refusal) {
			t.Errorf("trimmed %v, less is accepted: %v", trimmed, err)
		}
		for _, accepted := range []journal.Range{{First: 1, Last: next - 1}, {}} {
			accepting = open()
			accepting.AcceptLoss = accepted
			s = serve(t, accepting)
			p = s.peer(t)
			p.hello(first("a"))
			p.stores(1, 5)
			must(t, s.Shutdown(soon(t)))
		}
		if _, err := Check(t.Context(), &memory, nil); err != nil {
			t.Error(err)
		}
	}
}
