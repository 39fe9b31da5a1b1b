package gateway

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/hone-go/hone/gateway/journal"
	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/wire"
)

// second returns the hello of an instance.
func second(client string, instance, epoch, next uint64, welcomed bool) hello {
	return hello{client: client, instance: instance, epoch: epoch, next: next, welcomed: welcomed}
}

// refusedHello sends a hello that the server must refuse.
func (p *peer) refusedHello(h hello, with wire.Result) {
	p.t.Helper()
	p.send(wire.Packet{Command: wire.Conn, ID: 1, Content: h.append(nil)})
	p.must(wire.ConnAck, 1, with)
	p.closed()
}

// TestTakeoverIsTold has connections lose their session to others: each is told why.
func TestTakeoverIsTold(t *testing.T) {
	up := serve(t, &Server{Log: newGate()})
	old := up.peer(t)
	w := old.hello(first("a"))
	again := up.peer(t)
	again.hello(hello{client: "a", epoch: w.epoch, next: 1})
	old.must(wire.ConnAck, 0, resultMoved)
	old.closed()
	newer := up.peer(t)
	newer.hello(first("a"))
	again.must(wire.ConnAck, 0, resultFenced)
	again.closed()

	// Of a session's instances, the one that comes last has it for good, also after a restart.
	one, two := up.peer(t), up.peer(t)
	w = one.hello(second("b", 1, 0, 1, false))
	two.hello(second("b", 2, w.epoch, 1, false))
	one.must(wire.ConnAck, 0, resultFenced)
	one.closed()
	up.peer(t).refusedHello(second("b", 1, w.epoch, 1, true), resultFenced)
	log := up.Log
	up.Close()
	up.ended(t)
	up = serve(t, &Server{Log: log})
	up.peer(t).refusedHello(second("b", 1, w.epoch, 1, true), resultFenced)
	up.peer(t).hello(second("b", 2, w.epoch, 1, true))
	three := up.peer(t)
	three.hello(hello{client: "b", epoch: w.epoch, next: 1}) // it does not say which it is
	up.peer(t).hello(second("b", 2, w.epoch, 1, true))
	three.must(wire.ConnAck, 0, resultMoved)
}

// TestUnknownEpochs asks for epochs that the log does not know.
func TestUnknownEpochs(t *testing.T) {
	up := serve(t, &Server{Log: newGate()})
	w := up.peer(t).hello(first("a"))
	up.peer(t).refusedHello(second("a", 1, w.epoch+1, 1, false), resultRegressed)
	up.peer(t).refusedHello(second("b", 1, w.epoch+1, 1, false), resultRegressed)
	up.peer(t).refusedHello(second("b", 1, w.epoch, 1, false), resultExpired)
}

// TestRecordsDuringATakeover: what comes over a session's old connection while a claim for the new one is on its way
// to the log is stored before the welcome, which names it. Else what the newcomer sends under the same numbers would
// be acknowledged as duplicates, and not be stored.
func TestRecordsDuringATakeover(t *testing.T) {
	log := newGate()
	up := serve(t, &Server{Log: log})
	one, two := up.peer(t), up.peer(t)
	w := one.hello(second("b", 1, 0, 1, false))
	log.set(true, nil)
	two.send(wire.Packet{Command: wire.Conn, ID: 1, Content: second("b", 2, w.epoch, 1, false).append(nil)})
	<-log.tried
	one.submit(1, "of one")
	waitFor(t, "the record to be queued", func() bool { return up.Stats().Queued == 1 })
	log.set(false, nil)
	one.must(wire.SubmitAck, 1, wire.OK)
	one.must(wire.ConnAck, 0, resultMoved)
	if w = two.welcome(); w.last != 1 || !w.summed {
		t.Fatalf("%+v", w)
	}
	two.stored(2, "of two")
	if got := fmt.Sprint(records(t, log)); got != "map[b:[of one of two]]" {
		t.Error(got)
	}
	up.peer(t).refusedHello(second("b", 1, w.epoch, 1, true), resultFenced)
}

// TestInstances runs random interleavings of programs that have one identity: fresh ones, ones that
// kept their state, copies of running ones, and restarts with unacknowledged records, against a
// log of one server and one of two. What was acknowledged is stored, as its program's own record,
// and a program that is alone is never refused.
func TestInstances(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	n := testrun.Sized(400, 10_000)
	var refused, resumed, diverged int
	for i := range n {
		w := &world{t: t, random: rand.New(rand.NewPCG(seed, uint64(i))), acked: map[uint64]string{}}
		w.live(i%2 == 1)
		refused, resumed, diverged = refused+w.refused, resumed+w.resumed, diverged+w.diverged
		if t.Failed() {
			t.Fatalf("interleaving %d", i)
		}
	}
	t.Logf("%d interleavings: %d resumptions, %d refusals, %d found that others had written", n, resumed, refused, diverged)
	if refused == 0 || resumed == 0 || diverged == 0 {
		t.Error("something never happened")
	}
}

// world is one interleaving: servers of one log, and programs with one identity.
type world struct {
	t        *testing.T
	random   *rand.Rand
	servers  []*offline
	programs []*program
	names    int
	acked    map[uint64]string // by epoch and sequence number: what the program that was told so had sent
	refused  int
	resumed  int
	diverged int
}

// program is a program that follows the rules of docs/gateway.md.
type program struct {
	instance    uint64
	welcomed    bool
	epoch, base uint64
	sum         uint32
	sums        sums
	pending     []string // records from base on
	link        *link
	at          *offline
	ended       bool
	lawful      bool // nobody else has used the identity since it had it
}

func (w *world) live(shared bool) {
	var memory Memory
	open := views(&memory)
	for range 1 + min(1, map[bool]int{true: 1}[shared]) {
		var log journal.Log = &memory
		if shared {
			log = open()
		}
		w.servers = append(w.servers, recovered(w.t, &Server{Log: log, Shared: shared, Checkpoint: 5}))
	}
	w.programs = []*program{{instance: 1, lawful: true}}
	for range 30 {
		p := w.programs[w.random.IntN(len(w.programs))]
		switch w.random.IntN(9) {
		case 0, 1:
			w.connect(p)
		case 2, 3, 4:
			w.write(p)
		case 5: // the connection breaks
			if p.link != nil {
				p.at.closed(p.link)
				p.link = nil
			}
		case 6: // the program restarts with what it has kept
			next := *p
			next.instance, next.welcomed, next.link = w.random.Uint64()|1<<40, false, nil
			next.pending = slices.Clone(p.pending)
			p.ended = true
			w.programs = append(w.programs, &next)
		case 7: // its machine is copied, while it runs
			if len(w.programs) < 6 {
				next := *p
				next.link = nil
				next.pending = slices.Clone(p.pending)
				w.programs = append(w.programs, &next)
				for _, one := range w.programs {
					one.lawful = false
				}
			}
		case 8: // a server crashes, and another is started
			i := w.random.IntN(len(w.servers))
			old := w.servers[i]
			for _, one := range w.programs {
				if one.at == old {
					one.link, one.at = nil, nil
				}
			}
			w.servers[i] = recovered(w.t, &Server{Log: old.Log, Shared: old.Shared, Checkpoint: 5})
		}
	}
	w.check()
}

func (w *world) connect(p *program) {
	if p.ended || p.link != nil {
		return
	}
	at := w.servers[w.random.IntN(len(w.servers))]
	h := second("dup", p.instance, p.epoch, p.base, p.welcomed)
	h.next = max(h.next, 1)
	if at.Shared {
		must(w.t, at.committer.follow())
	}
	l, known, err := at.hello(h)
	if err != nil {
		w.refused++
		if p.lawful {
			w.t.Errorf("a program that is alone is refused: %v", err)
		}
		p.ended = true
		return
	}
	w.resumed++
	got := at.welcome(&request{link: l, hello: h}, known)
	if p.epoch == 0 {
		p.epoch, p.base = got.epoch, 1
	}
	p.at, p.welcomed = at, true
	if got.last >= p.base+uint64(len(p.pending)) {
		w.stop(p, l)
		return
	}
	sum := p.sum
	for seq := p.base; seq <= got.last; seq++ {
		sum = p.sums.add(sum, seq, []byte(p.pending[seq-p.base]))
	}
	if !got.summed || sum != got.sum {
		w.stop(p, l)
		return
	}
	for p.base <= got.last {
		w.acknowledged(p)
	}
	p.link = l
	for i, data := range p.pending {
		w.submit(p, p.base+uint64(i), data)
	}
	w.settle(p)
}

// stop ends a program that finds records of others in its session.
func (w *world) stop(p *program, l *link) {
	w.diverged++
	if p.lawful {
		w.t.Errorf("a program that is alone finds records of others")
	}
	p.ended = true
	p.at.closed(l)
}

// write submits a record, and may leave its acknowledgement on the way.
func (w *world) write(p *program) {
	if p.ended || p.link == nil {
		return
	}
	w.names++
	data := fmt.Sprint("record ", w.names)
	p.pending = append(p.pending, data)
	seq := p.base + uint64(len(p.pending)) - 1
	w.submit(p, seq, data)
	if w.random.IntN(3) > 0 {
		w.settle(p)
	}
}

// submit sends one record over p's connection, unless it is not the session's any more.
func (w *world) submit(p *program, seq uint64, data string) {
	if p.link == nil || p.link.session.link != p.link {
		p.link = nil // it was told so, or was not
		return
	}
	if err := p.at.queue.accept(p.link, context.Background, seq, []byte(data), noAnswer); err != nil && err != errDuplicate {
		w.t.Fatal(err)
	}
}

// settle lets the server store what waits; what is stored then is acknowledged.
func (w *world) settle(p *program) {
	if p.link == nil {
		return
	}
	p.at.settleAll()
	if known := p.link.session; known.link == p.link && !known.dead {
		for len(p.pending) > 0 && p.base <= known.durable.Load() {
			w.acknowledged(p)
		}
	} else {
		p.link = nil
	}
}

// acknowledged notes that the first pending record is.
func (w *world) acknowledged(p *program) {
	key := p.epoch<<20 | p.base
	if before, known := w.acked[key]; known && before != p.pending[0] {
		w.t.Errorf("%q and %q are both acknowledged as record %d", before, p.pending[0], p.base)
	}
	w.acked[key] = p.pending[0]
	p.sum = p.sums.add(p.sum, p.base, []byte(p.pending[0]))
	p.base++
	p.pending = p.pending[1:]
}

// check compares what was acknowledged with the log.
func (w *world) check() {
	for _, s := range w.servers {
		if !s.Shared {
			s.settleAll()
		}
	}
	stored := map[uint64]string{}
	if _, err := Check(context.Background(), w.servers[0].Log, func(r journal.Record) error {
		stored[r.Epoch<<20|r.Seq] = string(r.Data)
		return nil
	}); err != nil {
		w.t.Error(err)
	}
	for key, data := range w.acked {
		if stored[key] != data {
			w.t.Errorf("record %d: %q was acknowledged, %q is stored", key&(1<<20-1), data, stored[key])
		}
	}
}

// TestUnacknowledged resumes a session with the records that the run before had not seen
// acknowledged: those that are stored are found, the others are sent.
func TestUnacknowledged(t *testing.T) {
	log := newGate()
	up := serve(t, &Server{Log: log})
	before := &Client{ID: "a", Addrs: []string{up.addr}}
	session, err := before.Open(soon(t))
	must(t, err)
	works(t)(before.Submit(soon(t), []byte("one")))
	next, sum := before.Acknowledged()
	works(t)(before.Submit(soon(t), []byte("two")))
	before.end(ErrClosed) // the program is killed, before it has kept that
	<-before.done
	for name, c := range map[string]struct {
		sum  *uint32
		data []string
		want error
	}{
		"another record": {sum, []string{"2"}, ErrDiverged},
		"another sum":    {new(*sum + 1), []string{"two"}, ErrDiverged},
		"too few":        {sum, []string{}, nil}, // takes what is stored as it is
		"as it was":      {sum, []string{"two", "three"}, nil},
	} {
		after := &Client{ID: "a", Addrs: []string{up.addr}, Epoch: session.Epoch, Next: next, Sum: c.sum}
		for _, data := range c.data {
			after.Unacknowledged = append(after.Unacknowledged, []byte(data))
		}
		if _, err := after.Open(soon(t)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if c.want == nil {
			if err := after.Flush(soon(t)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if n, _ := after.Acknowledged(); n < 3 {
				t.Errorf("%s: the next record is %d", name, n)
			}
		}
		after.Close(soon(t))
	}
	if got := records(t, log)["a"]; !slices.Equal(got, []string{"one", "two", "three"}) {
		t.Errorf("stored: %q", got)
	}
}
