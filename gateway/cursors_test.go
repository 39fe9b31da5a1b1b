package gateway

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hone-go/hone/gateway/journal"
	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/wire"
)

// state returns what the server knows of the first share of a reader.
func (u *served) state(name string) (st ReaderState) {
	for _, st := range u.ReaderStates() {
		if st.Name == name && st.Share == 0 {
			return st
		}
	}
	return st
}

// placed waits until the log has the position that a reader has acknowledged.
func (u *served) placed(t testing.TB, name string, number uint64) {
	t.Helper()
	waitFor(t, "the position of "+name, func() bool {
		r := &u.readers
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, p := range r.cursors[name] {
			if p.logged != p.number || p.number < number {
				return false
			}
		}
		return len(r.cursors[name]) > 0
	})
}

// TestPositionsSurvive ends a server without a checkpoint after its reader's position is in the log, again
// and again, and at random with one: each time the next server gives the reader what it had not acknowledged.
func TestPositionsSurvive(t *testing.T) {
	var log Memory
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	taken := 0
	for round := range testrun.Sized(20, 500) {
		up := serve(t, &Server{Log: &log, positionTime: time.Millisecond, Checkpoint: 1 + random.IntN(40)})
		r := up.reader(t, "copy", FromFirst)
		works(t)(r.Open(soon(t)))
		for range random.IntN(4) {
			n := 1 + random.IntN(5)
			up.submits(t, fmt.Sprint("c", round), n)
			if got := r.take(t, n); len(got) != 1 || len(got[fmt.Sprint("c", round)]) != n {
				t.Fatalf("round %d: %v instead of %d new messages", round, got, n)
			}
			taken += n
		}
		up.placed(t, "copy", r.acked.Number)
		if random.IntN(2) == 0 {
			must(t, up.Shutdown(soon(t)))
		}
		up.Close()
		r.Close()
	}
	up := serve(t, &Server{Log: &log})
	up.submits(t, "last", 1)
	if got := fmt.Sprint(up.reader(t, "copy", Stored).take(t, 1)); got != "map[last:[0]]" {
		t.Errorf("after %d messages that were acknowledged: %s", taken, got)
	}
}

// TestIdlePositions: the positions of readers that have everything are stored once, and make the log grow no
// further. While records come, they are a small part of the log.
func TestIdlePositions(t *testing.T) {
	var log Memory
	up := serve(t, &Server{Log: &log, positionTime: 10 * time.Millisecond, tellTime: 20 * time.Millisecond})
	var all []*Reader
	for i := range 4 {
		r := up.reader(t, fmt.Sprint("r", i), FromFirst)
		if i == 3 {
			r.Client = "nobody" // what the filter excludes moves the position as well
		}
		all = append(all, r)
	}
	ctx, cancel := context.WithCancel(soon(t))
	var reading sync.WaitGroup
	each := testrun.Sized(10_000, 300_000)
	for i, r := range all {
		reading.Go(func() {
			if i < 3 {
				r.take(t, each)
				return
			}
			for {
				b, err := r.Next(ctx)
				if err != nil {
					return
				}
				r.Ack(b.Position)
			}
		})
	}
	up.submits(t, "a", each)
	waitFor(t, "the reader that gets nothing", func() bool { return up.state("r3").Position.Number>>indexBits == up.newest() })
	cancel()
	reading.Wait()
	for i := range all {
		up.placed(t, fmt.Sprint("r", i), 0)
	}
	_, before, _ := log.Bounds()
	ticks := time.NewTicker(10 * time.Millisecond)
	defer ticks.Stop()
	for range 40 { // times positionTime
		<-ticks.C
	}
	if _, after, _ := log.Bounds(); after > before+4 {
		t.Errorf("%d envelopes while nothing happened", after-before)
	}
	positions, bytes := 0, 0
	must(t, log.Read(soon(t), 1, func(_ uint64, b []byte) error {
		e, err := journal.Decode(b)
		bytes += len(b)
		for p := range e.Positions() {
			positions += 5 + len(p.Name) + 46
		}
		return err
	}))
	t.Logf("positions: %d of %d bytes", positions, bytes)
	if positions > bytes/50 { // positionTime is a 50th of that of a real server
		t.Errorf("positions are %d of %d bytes", positions, bytes)
	}
}

// newest is the position of the newest envelope with records.
func (u *served) newest() uint64 {
	u.readers.mu.Lock()
	defer u.readers.mu.Unlock()
	return u.readers.newest
}

// twoOfALog starts two servers that share a log, and open further ones. a is the left one's view of it.
func twoOfALog(t *testing.T) (a *view, left, taken *served, open func() (*view, *served)) {
	t.Helper()
	var memory Memory
	next := views(&memory)
	open = func() (*view, *served) {
		v := next()
		return v, serve(t, &Server{Log: v, Shared: true, positionTime: time.Millisecond})
	}
	a, left = open()
	_, taken = open()
	return a, left, taken, open
}

// TestSharedReaders has a reader move from one server of a log to another: a late acknowledgement at the first
// moves nothing, and a reader at a quiet server gets what the other one stores.
func TestSharedReaders(t *testing.T) {
	a, left, taken, open := twoOfALog(t)
	left.submits(t, "c", 20)
	p := left.peer(t)
	w := p.openReader(&opening{start: FromFirst, name: "copy", shares: 1})
	d := p.delivery()
	for d.ID>>indexBits < left.newest() {
		d = p.delivery()
	}
	p.acknowledge(w, d.ID)
	left.placed(t, "copy", d.ID)
	left.submits(t, "d", 20)
	late := p.delivery()

	a.gate.set(true, nil) // the first server stands still with an acknowledgement
	p.acknowledge(w, late.ID)
	<-a.gate.tried
	q := taken.peer(t)
	v := q.openReader(&opening{start: Stored, name: "copy", shares: 1})
	if v.number != d.ID || v.generation <= w.generation {
		t.Fatalf("%+v after %+v", v, w)
	}
	a.gate.set(false, nil)
	for {
		packet, err := p.receive()
		must(t, err)
		if packet.Result == resultMoved {
			break
		}
	}
	var first, again Batch // the second server may have more in one delivery
	if !first.parse(late.Content) || !again.parse(q.delivery().Content) || again.Messages[0].Number != first.Messages[0].Number {
		t.Errorf("the second server begins with %+v, the first with %+v", again.Messages, first.Messages)
	}
	left.submits(t, "e", 5) // and the second server stores nothing
	for got := 0; got < 5; {
		var b Batch
		if d := q.delivery(); !b.parse(d.Content) {
			t.Fatal("malformed")
		}
		for _, m := range b.Messages {
			if m.Client == "e" {
				got++
			}
		}
	}
	for _, up := range []*served{left, taken} {
		must(t, up.Shutdown(soon(t)))
	}
	_, third := open()
	must(t, third.Recover(soon(t)))
	if st := third.state("copy"); st.Position.Number != d.ID {
		t.Errorf("the log has %d, want %d", st.Position.Number, d.ID)
	}
}

// TestRemovedElsewhere removes and splits readers at one server while another stands still with an
// acknowledgement of theirs: that brings nothing back.
func TestRemovedElsewhere(t *testing.T) {
	for _, do := range []string{"remove", "split"} {
		a, left, taken, open := twoOfALog(t)
		left.submits(t, "c", 20)
		p := left.peer(t)
		w := p.openReader(&opening{start: FromFirst, name: "copy", shares: 1})
		d := p.delivery()
		a.gate.set(true, nil)
		p.acknowledge(w, d.ID)
		<-a.gate.tried
		must(t, taken.OrderReader(soon(t), ReaderOrder{Do: do, Name: "copy", Shares: 2}))
		a.gate.set(false, nil)
		for result := wire.OK; result != resultChanged; { // the first server has heard of it
			packet, err := p.receive()
			must(t, err)
			result = packet.Result
		}
		for _, up := range []*served{left, taken} {
			must(t, up.Shutdown(soon(t)))
		}
		_, third := open()
		must(t, third.Recover(soon(t)))
		for _, up := range []*served{left, taken, third} {
			st := up.ReaderStates()
			if do == "remove" && len(st) != 0 || do == "split" && (len(st) != 2 || st[0].Position.Number != w.number) {
				t.Errorf("%s: %+v", do, st)
			}
		}
	}
}

// openReader opens a reader by hand.
func (p *peer) openReader(o *opening) readWelcome {
	p.t.Helper()
	p.send(wire.Packet{Command: wire.Conn, ID: 1, Content: o.append(nil)})
	w, err := parseReadWelcome(p.must(wire.ConnAck, 1, wire.OK).Content)
	must(p.t, err)
	return w
}

// delivery returns the next Deliver; acknowledgements before it are skipped.
func (p *peer) delivery() wire.Packet {
	p.t.Helper()
	for {
		packet, err := p.receive()
		must(p.t, err)
		if packet.Command == wire.Deliver {
			return packet
		}
		if packet.Result != wire.OK {
			p.t.Fatalf("%v %q", packet.Result, packet.Content)
		}
	}
}

func (p *peer) acknowledge(w readWelcome, number uint64) {
	p.t.Helper()
	p.send(wire.Packet{Command: wire.Submit, ID: 1, Content: acknowledgement{w.generation, number, 0}.append(nil)})
}

// TestGaps: a reader is told which records were trimmed before it had read them, and which are damaged, and
// goes on behind them. In a log that has what was missing, as a restored backup may, it does not.
func TestGaps(t *testing.T) {
	log := &holed{Memory: &Memory{}, lost: map[uint64]bool{}}
	up := serve(t, &Server{Log: log, Checkpoint: 3})
	for i := range 10 {
		up.submits(t, fmt.Sprint("c", i), 1)
	}
	r := up.reader(t, "copy", FromFirst)
	b, err := r.Next(soon(t))
	must(t, err)
	r.Ack(b.Position)
	must(t, up.Trim(soon(t), 6))
	log.lost[8], log.lost[9] = true, true
	var behind Position // the last gap
	for _, name := range []string{"trimmed", "own"} {
		r := up.reader(t, name, FromNumber)
		r.Number = 1 << indexBits
		if name == "own" {
			r.Start, r.Own = Stored, &Position{Log: b.Position.Log, Number: 3 << indexBits, Sum: 99}
		}
		var gaps []Gap
		for last := uint64(0); last>>indexBits < up.newest(); {
			b, err := r.Next(soon(t))
			must(t, err)
			if b.Gap != nil {
				gaps = append(gaps, *b.Gap)
				behind = b.Position
			}
			last = b.Position.Number
			r.Ack(b.Position)
		}
		from := map[string]uint64{"trimmed": 1 << indexBits, "own": 3<<indexBits + 1}[name]
		if len(gaps) < 2 || gaps[0] != (Gap{from, before(6), Trimmed}) || gaps[1].From>>indexBits != 8 || gaps[len(gaps)-1].To != before(10) || gaps[1].Reason != Damaged {
			t.Errorf("%s: %v", name, gaps)
		}
	}
	for _, want := range []error{nil, ErrRegressed} {
		r := up.reader(t, "own", Stored)
		r.Own = &behind
		if _, err := r.Next(soon(t)); !errors.Is(err, want) {
			t.Errorf("behind the gap at %v: %v, not %v", behind, err, want)
		}
		must(t, up.Shutdown(soon(t)))
		up = serve(t, &Server{Log: log.Memory}) // without the holes
	}
}

// TestOwnPosition: what a program has stored itself is the truth, forwards and backwards, unless the log is
// another one, has other records there, or ends before.
func TestOwnPosition(t *testing.T) {
	var log Memory
	up := serve(t, &Server{Log: &log})
	up.submits(t, "a", 10)
	r := up.reader(t, "sink", FromFirst)
	b, err := r.Next(soon(t))
	must(t, err)
	r.take(t, 10-len(b.Messages))
	good := b.Position
	r.Close()
	other := up.reader(t, "sink", Stored)
	other.Own = &good
	if n := len(other.take(t, 10-len(b.Messages))); n > 1 {
		t.Errorf("%d clients", n)
	}
	for what, wrong := range map[string]Position{
		"of another log":   {Log: [16]byte{1}, Number: good.Number, Sum: good.Sum},
		"another envelope": {Log: good.Log, Number: good.Number, Sum: good.Sum + 1},
		"ends at position": {Log: good.Log, Number: 1 << 40},
	} {
		r := up.reader(t, "sink", FromFirst)
		r.Own = &wrong
		if _, err := r.Next(soon(t)); !errors.Is(err, ErrRegressed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	text, err := good.MarshalText()
	var back Position
	if err := errors.Join(err, back.UnmarshalText(text)); err != nil || back != good {
		t.Errorf("%s: %+v, %v", text, back, err)
	}
}

// TestStarts begins readers at each start.
func TestStarts(t *testing.T) {
	wall := int64(1_800_000_000_000)
	var mu sync.Mutex
	s := &Server{Log: &Memory{}, now: func() (int64, int64) {
		mu.Lock()
		defer mu.Unlock()
		return wall, wall - 1_799_999_999_000
	}}
	up := serve(t, s)
	var at []uint64
	for i := range 5 {
		up.submits(t, fmt.Sprint("c", i), 1)
		at = append(at, up.newest())
		mu.Lock()
		wall += 1000
		mu.Unlock()
	}
	for _, c := range []struct {
		what  string
		set   func(r *Reader)
		first string
	}{
		{"first", func(r *Reader) { r.Start = FromFirst }, "c0"},
		{"time", func(r *Reader) { r.Start, r.At = FromTime, time.UnixMilli(1_800_000_002_000) }, "c2"},
		{"a time between two", func(r *Reader) { r.Start, r.At = FromTime, time.UnixMilli(1_800_000_002_001) }, "c3"},
		{"a time before all", func(r *Reader) { r.Start, r.At = FromTime, time.UnixMilli(1) }, "c0"},
		{"number", func(r *Reader) { r.Start, r.Number = FromNumber, at[3]<<indexBits }, "c3"},
		{"next", func(r *Reader) { r.Start = FromNext }, "new"},
	} {
		r := up.reader(t, "r", Stored)
		r.Passing = true
		c.set(r)
		if _, err := r.Open(soon(t)); err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		if c.first == "new" {
			up.submits(t, "new", 1)
		}
		b, err := r.Next(soon(t))
		if err != nil || len(b.Messages) == 0 || b.Messages[0].Client != c.first {
			t.Errorf("%s: %+v, %v", c.what, b.Messages, err)
		}
	}
	if len(up.ReaderStates()) != 0 {
		t.Errorf("passing readers have left %v", up.ReaderStates())
	}
}

// TestOrders: an operator creates, moves, splits and removes readers, also connected ones, and the next start
// knows it.
func TestOrders(t *testing.T) {
	var log Memory
	up := serve(t, &Server{Log: &log, positionTime: time.Millisecond})
	up.submits(t, "a", 10)
	order := func(o ReaderOrder) {
		t.Helper()
		must(t, up.OrderReader(soon(t), o))
	}
	order(ReaderOrder{Do: "create", Name: "copy", Start: FromFirst, Expire: time.Hour})
	r := up.reader(t, "copy", Stored)
	r.take(t, 10)
	order(ReaderOrder{Do: "move", Name: "copy", Start: FromFirst})
	r.take(t, 10) // it has been told and has come back
	order(ReaderOrder{Do: "move", Name: "copy", Start: FromNext})
	order(ReaderOrder{Do: "split", Name: "copy", Shares: 3})
	if _, err := r.Next(soon(t)); !errors.Is(err, ErrShares) {
		t.Errorf("after the split: %v", err)
	}
	var each [3]int
	share := func(client string) int {
		return int(crc32.Checksum([]byte(client), crc32.MakeTable(crc32.Castagnoli)) % 3)
	}
	for i := range 12 {
		up.submits(t, fmt.Sprint("c", i), 2)
		each[share(fmt.Sprint("c", i))] += 2
	}
	for i, n := range each {
		r := up.reader(t, "copy", Stored)
		r.Share, r.Shares = i, 3
		for client, got := range r.take(t, n) {
			if share(client) != i || !slices.Equal(got, []string{"0", "1"}) {
				t.Errorf("share %d got %s of %s", i, got, client)
			}
		}
	}
	if _, err := up.reader(t, "nobody", Stored).Next(soon(t)); !errors.Is(err, ErrNoReader) {
		t.Error(err)
	}
	for _, wrong := range []ReaderOrder{
		{Do: "create", Name: "copy", Start: FromFirst}, {Do: "move", Name: "none", Start: FromFirst}, {Do: "remove", Name: "none"},
		{Do: "move", Name: "copy"}, {Do: "split", Name: "copy"}, {Do: "burn", Name: "copy"}, {Do: "create", Name: "a b", Start: FromFirst},
	} {
		if err := up.OrderReader(soon(t), wrong); err == nil {
			t.Errorf("%+v was carried out", wrong)
		}
	}
	order(ReaderOrder{Do: "create", Name: "gone", Start: FromFirst})
	order(ReaderOrder{Do: "remove", Name: "gone"})
	up.Close()
	again := serve(t, &Server{Log: &log})
	must(t, again.Recover(soon(t)))
	if st := again.ReaderStates(); len(st) != 3 || st[2].Share != 2 || st[2].Shares != 3 || st[2].Expire != time.Hour || st[0].Generation == 0 {
		t.Errorf("%+v", st)
	}
}

// TestForgetSession forgets a session that is connected.
func TestForgetSession(t *testing.T) {
	var log Memory
	up := serve(t, &Server{Log: &log})
	p := up.peer(t)
	w := p.hello(first("a"))
	p.stores(1, 3)
	up.submits(t, "b", 1)
	if st := up.SessionStates("", "", 10); len(st) != 2 || !st[0].Connected || st[0].Last != 3 || st[1].Client != "b" {
		t.Errorf("%+v", st)
	}
	must(t, up.ForgetSession(soon(t), "a"))
	if err := up.ForgetSession(soon(t), "nobody"); err == nil {
		t.Error("a session that is not there was forgotten")
	}
	p.must(wire.ConnAck, 0, resultExpired)
	up.Close()
	again := serve(t, &Server{Log: &log})
	q := again.peer(t)
	q.send(wire.Packet{Command: wire.Conn, ID: 1, Content: hello{epoch: w.epoch, next: 4, client: "a"}.append(nil)})
	q.must(wire.ConnAck, 1, resultExpired)
}
