package gateway

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/wire"
)

func first(client string) hello { return hello{next: 1, client: client} }

func TestSubmit(t *testing.T) {
	log := newGate()
	up := serve(t, &Server{Log: log})
	c := up.client(t, "meter-1")
	session, err := c.Open(soon(t))
	if err != nil || session.Level != Disk || session.Last != 0 || session.Expiry != 7*24*time.Hour {
		t.Fatalf("%+v, %v", session, err)
	}
	for i := range 3 {
		if seq, err := c.Submit(soon(t), fmt.Appendf(nil, "m%d", i)); seq != uint64(i+1) || err != nil {
			t.Fatalf("%d: %d, %v", i, seq, err)
		}
	}
	must(t, c.Close(soon(t)))
	if got := fmt.Sprint(records(t, log)); got != "map[meter-1:[m0 m1 m2]]" {
		t.Error(got)
	}
	if st := up.Stats(); st.Records != 3 || st.Duplicates != 0 || st.Clients != 1 || st.Queued != 0 || st.QueuedSize != 0 {
		t.Errorf("%+v", st)
	}
}

func TestManyInOneEnvelope(t *testing.T) {
	log := newGate()
	up := serve(t, &Server{Log: log})
	c := up.client(t, "a")
	works(t)(c.Open(soon(t)))
	log.set(true, nil)
	for i := range 500 {
		works(t)(c.SubmitAsync(soon(t), fmt.Append(nil, i), nil))
	}
	waitFor(t, "500 records to be queued", func() bool { return up.Stats().Queued == 500 })
	log.set(false, nil)
	must(t, c.Flush(soon(t)))
	if n := len(records(t, log)["a"]); n != 500 {
		t.Errorf("%d records", n)
	}
	// one for the epoch, one for what came first, one for all that waited
	if _, next, _ := log.Bounds(); next > 4 {
		t.Errorf("%d envelopes", next-1)
	}
}

// TestLargestRecord stores what the welcome allows, and has a reader get it, whatever FrameSize says.
func TestLargestRecord(t *testing.T) {
	for _, c := range []struct{ size, most int }{
		{2 << 20, maxFrameSize}, {math.MaxInt, maxFrameSize}, {5, minFrameSize}, {0, 64 << 10},
	} {
		log := newGate()
		up := serve(t, &Server{Log: log, Limits: engine.Limits{FrameSize: c.size}})
		p, name := up.peer(t), strings.Repeat("n", maxClientID)
		w := p.hello(hello{next: 1, client: name, token: strings.Repeat("t", maxToken), instance: 1, welcomed: true})
		if int(w.most) != c.most-submitHead {
			t.Errorf("FrameSize %d: the welcome allows %d bytes", c.size, w.most)
		}
		data := strings.Repeat("d", int(w.most))
		p.stored(1, data)
		p.submit(2, data+"d")
		if packet, err := p.receive(); err != nil || packet.Result != wire.TooLarge {
			t.Errorf("FrameSize %d: %v, %v", c.size, packet.Result, err)
		}
		if got := records(t, log)[name]; len(got) != 1 || got[0] != data {
			t.Errorf("FrameSize %d: %d records", c.size, len(got))
		}
		r := &Reader{Addrs: []string{up.addr}, Name: "r", Passing: true, Start: FromFirst}
		if b, err := r.Next(soon(t)); err != nil || len(b.Messages) != 1 || string(b.Messages[0].Data) != data {
			t.Errorf("FrameSize %d: the reader got %d records, %v", c.size, len(b.Messages), err)
		}
		r.Close()
	}
}

// waitFor polls what no event tells.
func waitFor(t testing.TB, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := soon(t); !is(); {
		select {
		case <-tick.C:
		case <-end.Done():
			t.Fatalf("waited for %s", what)
		}
	}
}

// TestAckAfterAppend shows that no acknowledgement leaves while the log has not stored it:
// none of a record, of a duplicate, of a new epoch.
func TestAckAfterAppend(t *testing.T) {
	log := newGate()
	up := serve(t, &Server{Log: log})
	log.set(true, nil)
	p := up.peer(t)
	p.send(wire.Packet{Command: wire.Conn, ID: 1, Content: first("a").append(nil)})
	<-log.tried
	p.silent()
	log.set(false, nil)
	w := p.welcome()
	log.set(true, nil)
	p.submit(1, "x")
	<-log.tried
	p.silent()

	// The client comes back while records of its old connection are on their way, and
	// sends them again.
	q := up.peer(t)
	q.send(wire.Packet{Command: wire.Conn, ID: 1, Content: hello{epoch: w.epoch, next: 1, client: "a"}.append(nil)})
	p.submit(2, "y")
	waitFor(t, "both to be queued", func() bool { return up.Stats().Queued == 2 })
	q.silent()
	log.pass()
	p.must(wire.SubmitAck, 1, wire.OK)
	<-log.tried
	p.submit(3, "z")
	waitFor(t, "the third to be queued", func() bool { return up.Stats().Queued == 2 })
	p.silent()
	log.pass()
	p.must(wire.SubmitAck, 2, wire.OK)
	// Now the hello is read. The third record came over the old connection, which gets no more: the
	// welcome waits until it is stored, and so does the end of that connection.
	<-log.tried
	q.silent()
	log.set(false, nil)
	p.must(wire.SubmitAck, 3, wire.OK)
	p.must(wire.ConnAck, 0, resultMoved)
	if w = q.welcome(); w.last != 3 {
		t.Fatalf("%+v", w)
	}
	q.stored(3, "z")
	q.stored(4, "!")
	if got := fmt.Sprint(records(t, log)); got != "map[a:[x y z !]]" {
		t.Error(got)
	}
}

// silent checks that the server has sent nothing, a moment after it had every reason to.
func (p *peer) silent() {
	p.t.Helper()
	p.nc.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	var one [1]byte
	if n, err := p.nc.Read(one[:]); n > 0 || err == nil {
		p.t.Fatal("the server sent something")
	}
	p.nc.SetDeadline(time.Now().Add(patience))
}

// TestReceivedIsBounded submits more than may wait at level received.
func TestReceivedIsBounded(t *testing.T) {
	log := newGate()
	up := serve(t, &Server{Log: log})
	c := up.client(t, "a")
	c.Level = Received
	works(t)(c.Open(soon(t)))
	log.set(true, nil)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	fed := make(chan uint64)
	go func() {
		n := uint64(0)
		for ; ctx.Err() == nil; n++ {
			if _, err := c.SubmitAsync(ctx, make([]byte, 100), nil); err != nil {
				break
			}
		}
		fed <- n
	}()
	waitFor(t, "a full window without acknowledgements", up.locked(func() bool { return len(up.queue.delayed) == 1024 }))
	if waits, most := up.Stats().Queued, receivedRecords+1024; waits > most {
		t.Errorf("%d records wait; at most %d may", waits, most)
	}

	// An acknowledgement waits for room only, not for all records before its own. The
	// envelope in flight may be small; the next one is full.
	log.pass()
	log.pass()
	waitFor(t, "acknowledgements after two envelopes", func() bool { return c.Stats().Acknowledged > receivedRecords })
	cancel()
	n := <-fed
	log.set(false, nil)
	must(t, c.Close(soon(t)))
	waitFor(t, "the log", func() bool { return up.Stats().Records == n })
}

// TestStaleHello has a client give up a hello that the server answers late: it must not take
// the session from the connection that the client has now.
func TestStaleHello(t *testing.T) {
	log := newGate()
	up := serve(t, &Server{Log: log})
	other := up.peer(t)
	other.hello(first("b"))
	log.set(true, nil)
	other.submit(1, "x")
	<-log.tried
	now := up.peer(t)
	now.send(wire.Packet{Command: wire.Conn, ID: 1, Content: first("a").append(nil)})
	waitFor(t, "the hello", func() bool { return up.waiting() == 1 })
	old := up.peer(t)
	old.send(wire.Packet{Command: wire.Conn, ID: 1, Content: first("a").append(nil)})
	waitFor(t, "the second hello", func() bool { return up.waiting() == 2 })
	old.nc.Close()
	waitFor(t, "the server to know that it is given up", up.locked(func() bool { return up.queue.waiting[0].requests[1].stale(false) }))
	log.set(false, nil)
	now.welcome()
	now.stored(1, "y")
}

// waiting is how many hellos wait for the committer.
func (u *served) waiting() (n int) {
	u.queue.mu.Lock()
	defer u.queue.mu.Unlock()
	for _, p := range u.queue.waiting {
		n += len(p.requests)
	}
	return n
}

func TestRestart(t *testing.T) {
	for _, every := range []int{1, 3, 1 << 14} {
		for _, drain := range []bool{true, false} {
			t.Run(fmt.Sprintf("checkpoint %d drain %v", every, drain), func(t *testing.T) {
				t.Parallel()
				log := newGate()
				var epoch uint64
				for run := range uint64(5) {
					srv := &Server{Log: log, Checkpoint: every}
					up := serve(t, srv)
					p := up.peer(t)
					w := p.hello(hello{epoch: epoch, next: 1, client: "a"})
					if epoch != 0 && w.epoch != epoch || w.last != run*10 {
						t.Fatalf("run %d: %+v", run, w)
					}
					epoch = w.epoch
					for seq := range run*10 + 10 { // the old ones again
						p.stored(seq+1, fmt.Sprint(seq))
					}
					other := up.peer(t)
					other.hello(first(fmt.Sprintf("b%d", run)))
					if drain {
						must(t, srv.Shutdown(soon(t)))
					} else {
						srv.Close()
					}
					if err := up.ended(t); err != ErrServerClosed {
						t.Fatal(err)
					}
				}
				if n := len(records(t, log)["a"]); n != 50 {
					t.Errorf("%d records", n)
				}
			})
		}
	}
}

// TestLogFails is the crash-only rule.
func TestLogFails(t *testing.T) {
	log := newGate()
	srv := &Server{Log: log}
	up := serve(t, srv)
	p := up.peer(t)
	w := p.hello(first("a"))
	p.stored(1, "x")
	broken := errors.New("the disk is on fire")
	log.set(false, broken)
	p.send(wire.Packet{Command: wire.Submit, ID: 2}, wire.Packet{Command: wire.Submit, ID: 3})
	p.closed()
	if err := up.ended(t); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if err := srv.Shutdown(soon(t)); !errors.Is(err, broken) {
		t.Error(err)
	}
	log.set(false, nil)
	again := serve(t, &Server{Log: log}).peer(t)
	if w := again.hello(hello{epoch: w.epoch, next: 2, client: "a"}); w.last != 1 {
		t.Errorf("%+v", w)
	}
}

func TestRegressed(t *testing.T) {
	log := newGate()
	up := serve(t, &Server{Log: log})
	p := up.peer(t)
	w := p.hello(first("a"))
	p.stored(1, "x")
	q := up.peer(t)
	q.send(wire.Packet{Command: wire.Conn, ID: 1, Content: hello{epoch: w.epoch, next: 5, client: "a"}.append(nil)})
	q.must(wire.ConnAck, 1, resultRegressed)
	q.closed()

	// At level received a crash may lose some: the session goes on behind them.
	r := up.peer(t)
	if v := r.hello(hello{epoch: w.epoch, next: 5, client: "a", level: Received}); v.last != 1 {
		t.Fatalf("%+v", v)
	}
	r.stored(5, "y")
	waitFor(t, "the log", func() bool { return len(records(t, log)["a"]) == 2 })
}

// elsewhere is a listener that other machines could reach.
type elsewhere struct{ net.Listener }

func (elsewhere) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 7} }

func TestRefusesToServeOthers(t *testing.T) {
	ln := listen(t)
	srv := &Server{Log: newGate()}
	defer srv.Close()
	if err := srv.Serve(elsewhere{ln}); !errors.Is(err, ErrOpen) {
		t.Error(err)
	}
}
