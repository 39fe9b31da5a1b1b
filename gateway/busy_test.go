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
		works(t)(log.Append(t.Context(), e.Bytes()))
	}
}

// parts describes a log by its envelopes: < for the first part of a checkpoint, - for others, > for the last one, ! for
// the only one, and r for records.
func parts(t *testing.T, log journal.Log) (said string) {
	t.Helper()
	must(t, log.Read(t.Context(), 0, func(_ uint64, envelope []byte) error {
		e, err := journal.Decode(envelope)
		switch e.Part {
		case journal.First | journal.Last:
			said += "!"
		case journal.First:
			said += "<"
		case journal.Last:
			said += ">"
		default:
			for st := range e.States() {
				if !st.Claim {
					said += "-"
					break
				}
			}
		}
		for range e.Records() {
			said += "r"
			break
		}
		return err
	}))
	return said
}

const crowded = 2*statesPerEnvelope + 10

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
	complete := up.locked(func() bool { return up.queue.base > 0 })
	for ; !complete(); seq++ {
		if p.stored(seq+1, record); seq > 100 {
			t.Fatalf("no checkpoint: %s", parts(t, &memory))
		}
	}
	said := strings.ReplaceAll(parts(t, &memory), "r", "")
	if middle := strings.TrimSuffix(strings.TrimPrefix(said, "<"), ">"); len(middle) != len(said)-2 || strings.Trim(middle, "-") != "" {
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

// parted is a log that waits before it stores an envelope.
type parted struct {
	Memory
	before func()
}

func (l *parted) Append(ctx context.Context, envelope []byte) (uint64, error) {
	if l.before != nil {
		l.before()
	}
	return l.Memory.Append(ctx, envelope)
}

// TestCheckpointBesidePacks: where records keep coming, no append is for a checkpoint alone, and a start knows the records
// that came with its parts.
func TestCheckpointBesidePacks(t *testing.T) {
	log := &parted{}
	crowd(t, log, crowded)
	up := serve(t, &Server{Log: log})
	p := up.peer(t)
	p.hello(first("a"))
	came, done := make(chan bool), atomic.Bool{}
	log.before = func() {
		if done.Load() {
			return
		}
		came <- true
		waitFor(t, "a record", up.locked(func() bool { return done.Load() || len(up.queue.waiting) > 0 && up.queue.waiting[0].count > 0 }))
	}
	p.submit(1, "x")
	seq := uint64(1)
	for !done.Load() {
		<-came
		seq++
		if seq == 2 {
			up.queue.mu.Lock()
			up.committer.checkpointed = -up.Expiry.Milliseconds()
			up.queue.mu.Unlock()
			up.tick()
		}
		up.queue.mu.Lock()
		done.Store(up.queue.base > 0)
		up.queue.mu.Unlock()
		p.submit(seq, "x")
	}
	for n := range seq {
		p.must(wire.SubmitAck, n+1, wire.OK)
	}
	if said := parts(t, log); said != "rr<r"+strings.Repeat("-r", crowded/statesBeside-1)+">rrr" {
		t.Errorf("the log has %s", said)
	}
	known, starts := up.sessions.byClient["a"], recovered(t, &Server{Log: log})
	again := starts.sessions.byClient["a"]
	if again.accepted != known.accepted || !again.summed || again.sum != known.storedSum {
		t.Errorf("a start knows %d records, with sum %08x (%v); stored are %d, with %08x", again.accepted, again.sum, again.summed, known.accepted, known.storedSum)
	}
	if n := len(starts.sessions.byClient); n != crowded+1 {
		t.Errorf("%d clients", n)
	}
}

// TestCheckpointOfLongNames: a part of a checkpoint fits into an envelope whatever its clients are called.
func TestCheckpointOfLongNames(t *testing.T) {
	var log Memory
	up := recovered(t, &Server{Log: &log})
	for i := range statesPerEnvelope + 1 {
		name := fmt.Sprintf("%0255d", i)
		up.sessions.byClient[name] = newSession(name, uint64(i+1), 0)
	}
	must(t, up.committer.checkpoint())
	if n := recovered(t, &Server{Log: &log}).Stats().Clients; n != statesPerEnvelope+1 {
		t.Errorf("%d clients", n)
	}
}

// TestCheckpointYields: of two servers for which a checkpoint is due at once, the one that comes second writes none.
func TestCheckpointYields(t *testing.T) {
	var memory Memory
	crowd(t, &memory, 10)
	up := recovered(t, &Server{Log: views(&memory)(), Shared: true})
	up.committer.beginCheckpoint()
	for _, part := range []journal.Part{0, journal.First} {
		var e journal.Encoder
		e.BeginCheckpoint(part, 0, nil)
		works(t)(memory.Append(t.Context(), e.Bytes()))
		must(t, up.committer.followOthers())
		if up.committer.yield(); (up.committer.saving == nil) != (part == journal.First) {
			t.Errorf("another server has stored part %d: %v", part, up.committer.saving)
		}
	}
	var e journal.Encoder
	e.Begin(0)
	works(t)(memory.Append(t.Context(), e.Bytes()))
	must(t, up.committer.followOthers())
	up.committer.beginCheckpoint()
	e.BeginCheckpoint(journal.First, 0, nil)
	pos, err := memory.Append(t.Context(), e.Bytes())
	must(t, err)
	must(t, up.committer.save(&pack{})) // it learns of the other one by losing the race for its own first part
	_, next, err := memory.Bounds()
	if must(t, err); up.committer.saving != nil || next != pos+1 {
		t.Errorf("after another server's first part at %d it goes on to %d: %v", pos, next, up.committer.saving)
	}
}
