package framed_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/wire"
)

// Replies of many connections, added in any order, arrive at their connections in the
// order of Add, and a Batch can be reused.
func TestBatchOfManyConnections(t *testing.T) {
	const conns, each, rounds = 20, 32, 3
	run(t, func(t *testing.T, e engine.Engine) {
		rnd := rand.New(rand.NewPCG(seed(t), 0))
		h, owed := postponing(conns * each)
		s := &framed.Server{Engine: e, Handler: h}
		addr := serve(t, s)
		peers := map[framed.Conn]*peer{}
		var unknown []*peer
		for range conns {
			unknown = append(unknown, dial(t, addr))
		}
		for i, p := range unknown {
			p.send(submit(0, fmt.Sprint("late ", i)))
			r := heard(t, owed, "a handler")
			peers[r.Conn()] = p
			r.Send(nil)
			p.want(ack(0, ""))
		}
		var batch framed.Batch
		for round := range rounds {
			for _, p := range peers {
				var out []byte
				for id := range uint64(each) {
					out = append(out, submit(id+1, fmt.Sprint("late ", id))...)
				}
				p.send(out)
			}
			all := make([]postponed, conns*each)
			for i := range all {
				all[i] = heard(t, owed, "a handler")
			}
			rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			wants := map[framed.Conn][]byte{}
			for i, r := range all {
				content := fmt.Sprint("done in round ", round)
				want := ack(r.id, content)
				if i%5 == 0 {
					batch.Fail(r.Reply, wire.Overloaded)
					want = frame(wire.SubmitAck, r.id, wire.Overloaded, "")
				} else {
					batch.Add(r.Reply, []byte(content))
				}
				wants[r.Conn()] = append(wants[r.Conn()], want...)
			}
			if n := batch.Len(); n != len(all) {
				t.Errorf("the batch has %d replies, want %d", n, len(all))
			}
			if sent := batch.Send(); sent != len(all) || batch.Len() != 0 {
				t.Errorf("%d of %d were sent, %d left", sent, len(all), batch.Len())
			}
			for c, want := range wants {
				peers[c].want(want)
			}
		}
		if st := s.Stats(); st.Owed != 0 || st.Late != conns*(each*rounds+1) {
			t.Errorf("counted %d owed and %d late replies, want 0 and %d", st.Owed, st.Late, conns*(each*rounds+1))
		}
	})
}

// A reply that was answered before, or is twice in a batch, does not affect the others;
// those of an ended connection are not sent.
func TestBatchWithRepliesThatCannotBeSent(t *testing.T) {
	const n = 6
	for bits := range 1 << n { // each subset of replies answered before
		t.Run(fmt.Sprintf("%06b", bits), func(t *testing.T) {
			h, owed := postponing(n + 1)
			s := &framed.Server{Engine: engine.All()[bits%len(engine.All())], Handler: h}
			addr := serve(t, s)
			p, q := dial(t, addr), dial(t, addr)
			for id := range uint64(n) {
				p.send(submit(id, "late"))
			}
			var batch framed.Batch
			var want []byte
			sent := 0
			for i := range n {
				r := heard(t, owed, "a handler")
				batch.Add(r.Reply, []byte("in the batch"))
				if bits&(1<<i) != 0 {
					r.Send([]byte("before"))
					p.want(ack(r.id, "before"))
					continue
				}
				batch.Add(r.Reply, []byte("a second time"))
				want = append(want, ack(r.id, "in the batch")...)
				sent++
			}
			q.send(submit(0, "late"))
			gone := heard(t, owed, "a handler")
			q.reset()
			eventually(t, "the other connection ends", func() bool { return s.Stats().Open == 1 })
			batch.Add(gone.Reply, []byte("nobody hears this"))
			batch.Add(framed.Reply{}, nil)
			if got := batch.Send(); got != sent {
				t.Errorf("%d were sent, want %d", got, sent)
			}
			p.want(want)
			p.closeWrite() // nothing is owed, so it ends
			p.wantEnd()
		})
	}
}

// A batch may be larger than what is posted at a time, and than what the socket accepts
// at once.
func TestBatchLargerThanAPeerTakes(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		const n = 64
		content := bytes.Repeat([]byte("x"), 10<<10)
		h, owed := postponing(n)
		p := dial(t, serve(t, &framed.Server{Engine: e, Handler: h}))
		var out, want []byte
		for id := range uint64(n) {
			out = append(out, submit(id, "late")...)
		}
		p.send(out)
		var batch framed.Batch
		for range n {
			r := heard(t, owed, "a handler")
			batch.Add(r.Reply, content)
			want = append(want, ack(r.id, string(content))...)
		}
		if sent := batch.Send(); sent != n {
			t.Errorf("%d of %d were sent", sent, n)
		}
		p.want(want)
	})
}

// Replies sent by a batch during a drain precede the refusal.
func TestBatchEndsADrain(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		h, owed := postponing(5)
		s := &framed.Server{Engine: e, Handler: h}
		p := dial(t, serve(t, s))
		var out, want []byte
		for id := range uint64(5) { // in one visit, which takes more tickets than it needs
			out = append(out, submit(id, "late")...)
		}
		p.send(out)
		var batch framed.Batch
		for range 5 {
			r := heard(t, owed, "a handler")
			batch.Add(r.Reply, nil)
			want = append(want, ack(r.id, "")...)
		}
		done := shutdown(t.Context(), s)
		drainBegins(t, s)
		none(t, done, "Shutdown returned although replies are owed")
		batch.Send()
		p.want(want)
		p.wantRefusal(wire.ShuttingDown)
		p.Close()
		drained(t, done, 1)
	})
}

// Batch can answer credentials.
func TestBatchAnswersConnect(t *testing.T) {
	owed := make(chan framed.Reply, 2)
	h := framed.HandlerFunc(func(c framed.Call, dst, _ []byte) ([]byte, error) {
		owed <- c.Later()
		return dst, nil
	})
	p := dial(t, serve(t, &framed.Server{Handler: h, Connect: h}))
	for _, c := range []wire.Command{wire.Conn, wire.Submit} {
		p.send(wire.Append(nil, wire.Packet{Command: c, ID: 7}))
	}
	var batch framed.Batch
	batch.Add(heard(t, owed, "a handler"), []byte("welcome"))
	batch.Fail(heard(t, owed, "a handler"), errors.New("on purpose"))
	batch.Send()
	p.want(wire.Append(nil, wire.Packet{Command: wire.ConnAck, ID: 7, Content: []byte("welcome")}))
	p.want(wire.Append(nil, wire.Packet{Command: wire.SubmitAck, ID: 7, Result: wire.Failed}))
}

// A Batch authenticates the clients whose Conn it has accepted, and only those: not the
// client that is next to have the group of one, and not one that was told otherwise before.
func TestReusedBatchTrustsWhomItHasAccepted(t *testing.T) {
	onFakeTime(t, func(t *testing.T, e engine.Engine) {
		owed := make(chan framed.Reply, 1)
		h := framed.HandlerFunc(func(c framed.Call, dst, _ []byte) ([]byte, error) {
			owed <- c.Later()
			return dst, nil
		})
		for _, observe := range []func(framed.Request){nil, func(framed.Request) {}} {
			s := &framed.Server{Engine: e, Handler: h, Connect: h, OnRequest: observe, Limits: engine.Limits{AuthTime: time.Second}}
			ln := serveInMemory(t, s)
			var batch framed.Batch
			asks := func(c wire.Command, answer func(framed.Reply)) *peer {
				p := ln.dial(t)
				p.send(frame(c, 1, 0, ""))
				answer(heard(t, owed, "a handler"))
				batch.Send()
				return p
			}
			accept := func(r framed.Reply) { batch.Add(r, nil) }
			trusted := []*peer{
				asks(wire.Conn, accept),
				asks(wire.Conn, func(r framed.Reply) { accept(r); accept(r) }),
			}
			others := []*peer{
				asks(wire.Submit, accept),
				asks(wire.Conn, func(r framed.Reply) { batch.Fail(r, wire.Unauthorised) }),
				asks(wire.Conn, func(r framed.Reply) { batch.Fail(r, wire.Unauthorised); accept(r) }),
				asks(wire.Conn, func(r framed.Reply) { r.Fail(wire.Unauthorised); accept(r) }),
			}
			for _, p := range trusted {
				p.want(frame(wire.ConnAck, 1, wire.OK, ""))
			}
			others[0].want(ack(1, ""))
			for _, p := range others[1:] {
				p.want(frame(wire.ConnAck, 1, wire.Unauthorised, ""))
			}
			for _, p := range others {
				p.wantRefusal(wire.TooSlow)
				p.Close() // otherwise it would linger
			}
			ended(t, s, engine.AuthTimeout, uint64(len(others)))
			for _, p := range trusted {
				p.send(submit(2, ""))
				heard(t, owed, "a handler").Send([]byte("still here"))
				p.want(ack(2, "still here"))
			}
		}
	})
}

func TestBatchReportsToOnRequest(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		reports := make(chan framed.Request, 4)
		h, owed := postponing(3)
		s := &framed.Server{Engine: e, Handler: h, OnRequest: func(r framed.Request) { reports <- r }}
		addr := serve(t, s)
		p, q := dial(t, addr), dial(t, addr)
		var batch framed.Batch
		p.send(submit(1, "late"))
		batch.Add(heard(t, owed, "a handler").Reply, []byte("fine"))
		p.send(submit(2, "late"))
		twice := heard(t, owed, "a handler").Reply
		batch.Fail(twice, errOutOfStock)
		batch.Fail(twice, errOutOfStock) // is not reported twice
		q.send(submit(3, "late"))
		batch.Add(heard(t, owed, "a handler").Reply, nil)
		q.reset()
		eventually(t, "the other connection ends", func() bool { return s.Stats().Open == 1 })
		if sent := batch.Send(); sent != 2 {
			t.Errorf("%d were sent, want 2", sent)
		}
		wants := map[uint64]framed.Request{
			1: {Result: wire.OK}, 2: {Result: wire.Failed, Err: errOutOfStock}, 3: {Result: wire.OK, Err: framed.ErrClosed},
		}
		for range wants {
			got := heard(t, reports, "a report")
			want := wants[got.ID]
			if !got.Late || got.Command != wire.Submit || got.Result != want.Result || got.Err != want.Err || got.Took <= 0 {
				t.Errorf("reported %+v, want the result and error of %+v", got, want)
			}
		}
		select {
		case r := <-reports:
			t.Errorf("unexpected report: %+v", r)
		default:
		}
	})
}

func TestBatchAllocations(t *testing.T) {
	if testrun.Race {
		t.Skip("sync.Pool drops some of its values under the race detector")
	}
	const n = 64
	owed := make(chan framed.Reply, n)
	p := dial(t, serve(t, &framed.Server{Handler: framed.HandlerFunc(func(c framed.Call, dst, _ []byte) ([]byte, error) {
		owed <- c.Later()
		return dst, nil
	})}))
	out := bytes.Repeat(submit(1, "late"), n)
	in := make([]byte, len(ack(1, "done"))*n)
	content := []byte("done")
	var batch framed.Batch
	allocs := testing.AllocsPerRun(200, func() {
		p.send(out)
		for range n {
			batch.Add(<-owed, content)
		}
		batch.Send()
		if _, err := io.ReadFull(p.r, in); err != nil {
			t.Error(err)
		}
	})
	if allocs >= 1 {
		t.Errorf("%v allocations for a batch of %d, server and all; want none", allocs, n)
	}
	if want := strings.Repeat(string(ack(1, "done")), n); string(in) != want {
		t.Errorf("read %q", in)
	}
}

// Limits.HardCap applies to a batch for a peer that reads nothing.
func TestBatchToAPeerThatDoesNotRead(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		const n = 300 // 18 MB, more than the kernel buffers
		content := make([]byte, 60<<10)
		h, owed := postponing(n)
		s := &framed.Server{Engine: e, Handler: h}
		p := dial(t, serve(t, s))
		p.send(bytes.Repeat(submit(1, "late"), n))
		var batch framed.Batch
		for range n {
			batch.Add(heard(t, owed, "a handler").Reply, content)
		}
		if sent := batch.Send(); sent == n {
			t.Errorf("all %d were sent", sent)
		}
		ended(t, s, engine.SlowReader, 1)
	})
}
