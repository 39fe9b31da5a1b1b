package gateway

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/hone-go/hone/gateway/internal/delivery"
	"github.com/hone-go/hone/gateway/journal"
	"github.com/hone-go/hone/wire"
)

// reader makes a Reader of the server that ends with the test.
func (u *served) reader(t testing.TB, name string, start Start) *Reader {
	r := &Reader{Addrs: []string{u.addr}, Name: name, Start: start}
	t.Cleanup(func() { r.Close() })
	return r
}

// take waits for n messages, acknowledges them, and returns their data by client.
func (r *Reader) take(t testing.TB, n int) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for n > 0 {
		b, err := r.Next(soon(t))
		if err != nil {
			t.Fatalf("%d messages are missing: %v", n, err)
		}
		for _, m := range b.Messages {
			all[m.Client] = append(all[m.Client], string(m.Data))
			n--
		}
		must(t, r.Ack(b.Position))
	}
	return all
}

// submit stores messages from, from+1 … of a client.
func (u *served) submits(t testing.TB, client string, n int) {
	t.Helper()
	c := &Client{Addrs: []string{u.addr}, ID: client}
	for i := range n {
		works(t)(c.SubmitAsync(soon(t), fmt.Append(nil, i), nil))
	}
	must(t, c.Close(soon(t)))
}

// TestReaderTakenOver: a second connection of a name ends the first, which moves nothing any more.
func TestReaderTakenOver(t *testing.T) {
	t.Parallel() // it waits more than it works
	up := serve(t, &Server{Log: &Memory{}})
	up.submits(t, "a", 10)
	first := up.reader(t, "copy", FromFirst)
	first.yieldTime = time.Millisecond
	b, err := first.Next(soon(t))
	must(t, err)
	second := up.reader(t, "copy", Stored)
	if got := len(second.take(t, 10)["a"]); got != 10 {
		t.Error(got)
	}
	first.Ack(b.Position)
	if _, err := first.Next(soon(t)); !errors.Is(err, ErrMoved) {
		t.Error(err)
	}
	up.submits(t, "b", 1)
	second.take(t, 1) // it was not disturbed

	// A connection that takes over and is gone, as an open that comes late, ends nobody.
	second.yieldTime = 2 * time.Second
	late := up.peer(t)
	late.openReader(&opening{start: Stored, name: "copy", shares: 1})
	late.nc.Close()
	up.submits(t, "c", 1)
	second.take(t, 1)
}

var stalledFor = flag.Duration("stalled", 0, "for how long the readers of TestStalledReader take nothing; 0: a moment")

// TestStalledReader: readers that take nothing cost the server at most their windows, and nobody else waits. The long
// run is go test -run TestStalledReader -stalled 10m -timeout 20m.
func TestStalledReader(t *testing.T) {
	s := &Server{Log: &Memory{}}
	if *stalledFor > 0 {
		log, err := journal.OpenSegments(filepath.Join(t.TempDir(), "log"), journal.SegmentsOptions{})
		must(t, err)
		t.Cleanup(func() { log.Close() })
		s = &Server{Log: log, RetainSize: 200 << 20, RetainHard: true}
	}
	up := serve(t, s)
	r := up.reader(t, "reads", FromFirst)
	ctx, cancel := context.WithTimeout(t.Context(), 2**stalledFor+patience)
	defer cancel()
	c := &Client{Addrs: []string{up.addr}, ID: "a"}
	data := make([]byte, 10_000)
	// run returns how long each of some rounds took, and the most bytes that waited for readers.
	run := func(least int, long time.Duration) (took []time.Duration, most int64) {
		t.Helper()
		for began := time.Now(); len(took) < least || time.Since(began) < long; {
			round := time.Now()
			for range 200 {
				works(t)(c.SubmitAsync(ctx, data, nil))
			}
			r.take(t, 200)
			took, most = append(took, time.Since(round)), max(most, up.EngineStats().Waiting)
		}
		slices.Sort(took)
		return took, most
	}
	alone, _ := run(1, *stalledFor/10)
	const stalled = 4
	for i := range stalled {
		up.peer(t).openReader(&opening{start: FromFirst, name: fmt.Sprint("stalled-", i), shares: 1, window: maxReadWindow})
	}
	took, most := run(10, *stalledFor)
	must(t, c.Close(soon(t)))
	if most == 0 || most > (stalled+1)*(maxReadWindow+delivery.Target) {
		t.Errorf("%d bytes wait for %d readers that take nothing", most, stalled)
	}
	for i := range stalled {
		if st := up.state(fmt.Sprint("stalled-", i)); st.InFlight > maxReadWindow+delivery.Target {
			t.Errorf("%d bytes are on the way to a reader", st.InFlight)
		}
	}
	before, with := alone[len(alone)/2], took[len(took)/2]
	t.Logf("%d rounds in %v each, before that %d in %v; at most %d bytes waited", len(took), with, len(alone), before, most)
	if *stalledFor > 0 && with > before*3/2 {
		t.Error("others are slower beside readers that take nothing")
	}
}

// TestAcknowledgementsAroundHeartbeat: what waits for a slow writer stays whole frames, whatever the numbers in
// them are. An acknowledgement replaces the one before it only if nothing came between them.
func TestAcknowledgementsAroundHeartbeat(t *testing.T) {
	var r Reader
	r.conn = &outlet{quiet: true, beat: time.NewTimer(time.Hour), interval: time.Hour}
	r.welcome.generation = uint64(wire.Submit) << 24 // a byte of it is the command's
	r.say()
	r.say()
	r.conn.quiet = true
	r.keepAlive(r.conn)
	r.say()
	var commands []wire.Command
	for in := r.conn.out; len(in) > 0; {
		payload, need, err := wire.Frame(in, maxAnswer)
		if err != nil || need > 0 {
			t.Fatalf("%d more bytes, %v: %x", need, err, in)
		}
		p, err := wire.Parse(payload)
		must(t, err)
		in, commands = in[wire.HeaderSize+len(payload):], append(commands, p.Command)
	}
	if want := []wire.Command{wire.Submit, wire.Conn, wire.Submit}; !slices.Equal(commands, want) {
		t.Errorf("%v wait; want %v", commands, want)
	}
}
