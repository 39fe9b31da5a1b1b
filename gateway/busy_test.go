package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/gateway/journal"
	"github.com/hone-go/hone/wire"
)

// contested is a log to which another server appends as well: before every Append, if busy, or only before the first one,
// and then its envelope cannot be read for some time.
type contested struct {
	*view
	busy  bool
	late  time.Duration // negative: for ever
	armed atomic.Bool
	tries atomic.Int32
	won   bool // the other server has, before this Append
}

func (l *contested) Append(ctx context.Context, envelope []byte) (uint64, error) {
	switch l.won = !l.won; {
	case !l.armed.Load():
	case l.busy && l.won:
		l.other()
		return 0, journal.ErrConflict
	case !l.busy:
		if l.tries.Add(1) == 1 && l.late >= 0 {
			time.AfterFunc(l.late, func() { l.other(); l.armed.Store(false) })
		}
		return 0, journal.ErrConflict
	}
	return l.view.Append(ctx, envelope)
}

// other has the other server append.
func (l *contested) other() {
	var e journal.Encoder
	e.Begin(0)
	l.Memory.Append(context.Background(), e.Bytes())
}

// TestLostRace: a log refuses everything for three seconds, because another server's envelope is on its way. That ends
// nothing. Only a log that goes on so has failed.
func TestLostRace(t *testing.T) {
	t.Parallel() // it waits
	log := &contested{view: views(&Memory{})(), late: 3 * time.Second}
	up := serve(t, &Server{Log: log, Shared: true})
	p := up.peer(t)
	p.hello(first("a"))
	log.armed.Store(true)
	p.stored(1, "x")
	if n := log.tries.Load(); n > 100 {
		t.Errorf("%d tries", n)
	}
	log = &contested{view: views(&Memory{})(), late: -1}
	log.armed.Store(true)
	stuck := serve(t, &Server{Log: log, Shared: true, AppendTime: time.Second})
	stuck.peer(t).send(wire.Packet{Command: wire.Conn, ID: 1, Content: first("b").append(nil)})
	err := stuck.ended(t)
	if said := fmt.Sprint(err); errors.Is(err, journal.ErrConflict) || !strings.Contains(said, "has refused position 1") {
		t.Error(err)
	}
}

// crowd stores the claims of n clients.
func crowd(t testing.TB, log journal.Log, n int) {
	t.Helper()
	var e journal.Encoder
	for from := 0; from < n; from += 1000 {
		e.Begin(0)
		must(t, e.Clock(journal.Clock{Time: time.Now().UnixMilli(), Highest: uint64(n)}))
		for i := from; i < min(from+1000, n); i++ {
			must(t, e.State(&journal.State{Client: fmt.Sprint("crowd-", i), Epoch: uint64(i + 1), Claim: true}))
		}
		_, err := log.Append(t.Context(), e.Bytes())
		must(t, err)
	}
}

// parts describes a log by its envelopes: < for the first part of a checkpoint, - for others, > for the last one, and r
// for records.
func parts(t *testing.T, log journal.Log) (said string) {
	t.Helper()
	must(t, log.Read(t.Context(), 0, func(_ uint64, envelope []byte) error {
		e, err := journal.Decode(envelope)
		states := 0
		for st := range e.States() {
			if !st.Claim {
				states++
			}
		}
		records := 0
		for range e.Records() {
			records++
		}
		switch {
		case e.Part == journal.First|journal.Last:
			said += "!"
		case e.Part == journal.First:
			said += "<"
		case e.Part == journal.Last:
			said += ">"
		case states > 0:
			said += "-"
		case records > 0:
			said += "r"
		}
		return err
	}))
	return said
}

const crowded = 2*statesPerEnvelope + 10 // three parts

// TestCheckpointBesideAnother: a checkpoint is completed although another server wins every second race, and written once.
func TestCheckpointBesideAnother(t *testing.T) {
	var memory Memory
	crowd(t, &memory, crowded)
	open := views(&memory)
	log := &contested{view: open(), busy: true}
	up := serve(t, &Server{Log: log, Shared: true, Checkpoint: 1})
	p := up.peer(t)
	p.hello(first("a"))
	log.armed.Store(true)
	record, seq := strings.Repeat("x", 32<<10), uint64(0)
	complete := func() bool {
		up.queue.mu.Lock()
		defer up.queue.mu.Unlock()
		return up.queue.base > 0
	}
	for ; !complete(); seq++ {
		if p.stored(seq+1, record); seq > 100 {
			t.Fatalf("no checkpoint: %s", parts(t, &memory))
		}
	}
	said := strings.ReplaceAll(parts(t, &memory), "r", "")
	if said != "<->" {
		t.Errorf("the log has %s", said)
	}
	starts := recovered(t, &Server{Log: open(), Shared: true})
	if n := starts.Stats().Clients; n != crowded+1 {
		t.Errorf("%d clients", n)
	}
	if known := starts.sessions.byClient["a"]; known.accepted != seq {
		t.Errorf("%d records of %d", known.accepted, seq)
	}
}

// parted is a log that waits before it stores a part of a checkpoint.
type parted struct {
	Memory
	before func()
}

func (l *parted) Append(ctx context.Context, envelope []byte) (uint64, error) {
	e, states := journal.Trust(envelope), 0
	for range e.States() {
		states++
	}
	if l.before != nil && (e.Part != 0 || states > 1) {
		l.before()
	}
	return l.Memory.Append(ctx, envelope)
}

// TestCheckpointBetweenPacks: what comes while a part of a checkpoint is stored is acknowledged before the next part.
func TestCheckpointBetweenPacks(t *testing.T) {
	log := &parted{}
	crowd(t, log, crowded)
	up := serve(t, &Server{Log: log})
	p := up.peer(t)
	p.hello(first("a"))
	seq, came := uint64(1), make(chan bool)
	log.before = func() {
		came <- true
		waitFor(t, "a record", func() bool {
			up.queue.mu.Lock()
			defer up.queue.mu.Unlock()
			return len(up.queue.waiting) > 0 && up.queue.waiting[0].count > 0
		})
	}
	up.queue.mu.Lock()
	up.checkpointed = -up.Expiry.Milliseconds()
	up.queue.mu.Unlock()
	up.tick()
	for range 3 {
		<-came
		p.submit(seq, "x")
		p.must(wire.SubmitAck, seq, wire.OK)
		seq++
	}
	if said := parts(t, log); said != "<r-r>r" {
		t.Errorf("the log has %s", said)
	}
}
