package gateway

import (
	"errors"
	"fmt"
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
