package cluster

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/hone-go/hone/gateway/internal/writer"
	"github.com/hone-go/hone/gateway/journal"
	"github.com/hone-go/hone/internal/natstest"
)

// append1 appends as a gateway does, and returns how often it found nothing new after a lost race.
func append1(ctx context.Context, l *Log) (nothing int, err error) {
	for {
		_, err := l.Append(ctx, sample("a", 1, 1))
		if !errors.Is(err, journal.ErrConflict) {
			return nothing, err
		}
		next := uint64(0)
		l.sequencer.Between(func() { next = l.next })
		found := false
		if err := l.Follow(ctx, next, func(uint64, []byte) error { found = true; return nil }); err != nil {
			return nothing, err
		}
		if !found {
			nothing++
		}
	}
}

// TestTurnsWithoutEffect: writers that stand still or lie about the stream hold nobody up for long, and change nothing.
func TestTurnsWithoutEffect(t *testing.T) {
	t.Parallel() // it waits for a nats-server
	url := natstest.Start(t, "")
	l := opened(t, url, Options{})
	nc, err := nats.Connect(url)
	must(t, err)
	defer nc.Close()
	appended(t, l, sample("a", 1, 1), 1)
	for i, said := range []string{
		"", "x", "1 x", "1 other 0 2", "2 other 0 99", "3 other 0 18446744073709551615", "9 other 7 7", "1 third 0 2", "3 other 0 2",
	} {
		must(t, nc.Publish(l.turns.subject, []byte(said)))
		must(t, nc.Flush())
		must(t, l.stream.nc.Flush()) // what was said before has arrived
		began := time.Now()
		if _, err := append1(t.Context(), l); err != nil {
			t.Errorf("%q: %v", said, err)
		}
		if all := contents(t, l, 0); len(all) != i+2 {
			t.Errorf("%q: %d envelopes", said, len(all))
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%q: %v", said, took)
		}
	}
}

// TestTurnOrder: of several writers that want a turn, the one that has waited longest comes first; all agree on that.
func TestTurnOrder(t *testing.T) {
	t.Parallel() // it waits for a nats-server
	url := natstest.Start(t, "")
	nc, err := nats.Connect(url)
	must(t, err)
	defer nc.Close()
	all := make([]*turns, 3)
	for i := range all {
		all[i] = &turns{}
		must(t, all[i].join(nc, "ORDER", fmt.Sprint("w", i), func(uint64) {}))
		all[i].last = []uint64{7, 5, 5}[i]
	}
	for _, w := range all {
		w.mu.Lock()
		w.say(wants, 8)
		w.mu.Unlock()
	}
	for i, want := range []int{2, 0, 1} { // how many are before each
		all[i].mu.Lock()
		for len(all[i].want) < 2 {
			all[i].mu.Unlock()
			must(t, writer.Pause(t.Context(), time.Millisecond))
			all[i].mu.Lock()
		}
		if got := all[i].first(); len(got) != want {
			t.Errorf("before %d: %v", i, got)
		}
		all[i].mu.Unlock()
	}
}

// TestTurnLength: a turn is longer only where all writers have gathered much, and no frozen one holds the others up for
// more than two seconds.
func TestTurnLength(t *testing.T) {
	for _, c := range []struct {
		mine, other int
		took        time.Duration
		goesOn      bool
	}{
		{busySize, busySize, turnTime * 2, true},
		{busySize, busySize, busyTurn + 1, false},
		{busySize - 1, busySize, turnTime * 2, false},
		{busySize, 0, turnTime * 2, false},
		{0, 0, turnTime / 2, true},
	} {
		w := &turns{last: 6, holds: true, began: time.Now().Add(-c.took), want: map[string]wanted{"other": {size: c.other}}}
		if _, leaves := w.leaves(7, c.mine); leaves || w.holds != c.goesOn {
			t.Errorf("%+v: leaves %t, goes on %t", c, leaves, w.holds)
		}
		w.last = 5 // the other one has had a turn since
		patience, _ := w.leaves(7, c.mine)
		if frozen := patience + 2*w.length(); frozen > 2*time.Second || patience <= w.length() {
			t.Errorf("%+v: %v for the turn, %v in all", c, patience, frozen)
		}
	}
}

// TestTurnOutlastsShortAppends: a turn does not end while a large envelope is gathered, although a small one was stored before
// it. Where all have become small, it comes to that.
func TestTurnOutlastsShortAppends(t *testing.T) {
	const short = 3 * time.Millisecond
	w := &turns{size: busySize}
	w.stored(7)
	w.done(40 * time.Millisecond)
	for pos := uint64(20); pos < 1000; pos += 10 { // a turn each
		w.stored(pos)
		w.done(short)
		if pos < 50 && w.rest(short) < 20*time.Millisecond {
			t.Fatalf("at %d it waits %v for more", pos, w.rest(short))
		}
	}
	if w.rest(short) > short+time.Millisecond {
		t.Errorf("in the end it waits %v for more", w.rest(short))
	}
	w.done(40 * time.Millisecond)
	if w.size = busySize - 1; w.rest(short) != short {
		t.Errorf("where little waits, it waits %v for more", w.rest(short))
	}
}

// brokenAnswers is a NATS server that answers reads in parts, and breaks the connection
// between two parts of an answer. It goes on when the client has subscribed again, as a
// cluster does: to the replica that answers, the subscription has only moved to another server.
type brokenAnswers struct {
	t       *testing.T
	ln      net.Listener
	answers [][][]answered // that are left, in parts
	reads   []uint64       // where the client has asked to begin
	inbox   string         // where an answer goes that has not ended
	ended   chan struct{}
}

// answered is one message of an answer: before is the position that the replica sent before it.
// Position 0 is the end.
type answered struct{ pos, before uint64 }

func serveAnswers(t *testing.T, answers [][][]answered) *brokenAnswers {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s := &brokenAnswers{t: t, ln: ln, answers: answers, ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			s.serve(nc)
			nc.Close()
		}
	}()
	return s
}

// serve serves one connection until it breaks, or the client leaves.
func (s *brokenAnswers) serve(nc net.Conn) {
	fmt.Fprint(nc, "INFO {\"server_id\":\"fake\",\"headers\":true,\"max_payload\":1048576}\r\n")
	sids := map[string]string{} // of the subscriptions
	for in := bufio.NewReader(nc); ; {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		words := strings.Fields(line)
		switch words[0] {
		case "PING":
			fmt.Fprint(nc, "PONG\r\n")
		case "SUB":
			sids[words[1]] = words[2]
		case "PUB":
			size, _ := strconv.Atoi(words[len(words)-1])
			body := make([]byte, size+2)
			if _, err := io.ReadFull(in, body); err != nil {
				return
			}
			var from uint64
			if _, err := fmt.Sscanf(string(body[bytes.Index(body, []byte(`"seq"`)):]), `"seq":%d`, &from); err != nil {
				s.t.Errorf("%s: %v", body, err)
			}
			s.reads, s.inbox = append(s.reads, from), words[2]
		}
		sid := sids[s.inbox]
		if sid == "" || len(s.answers) == 0 {
			continue
		}
		for _, a := range s.answers[0][0] {
			s.send(nc, sid, a)
		}
		if s.answers[0] = s.answers[0][1:]; len(s.answers[0]) > 0 {
			return // whatever else was under way is lost
		}
		s.answers, s.inbox = s.answers[1:], ""
	}
}

func (s *brokenAnswers) send(nc net.Conn, sid string, a answered) {
	head := fmt.Sprintf("NATS/1.0 204 EOB\r\nNats-Last-Sequence: %d\r\n\r\n", a.before)
	if a.pos > 0 {
		head = fmt.Sprintf("NATS/1.0\r\nNats-Sequence: %d\r\nNats-Last-Sequence: %d\r\n\r\n", a.pos, a.before)
	}
	fmt.Fprintf(nc, "HMSG %s %s %d %d\r\n%s\r\n", s.inbox, sid, len(head), len(head), head)
}

// TestReadAcrossReconnect: what a broken connection has lost of an answer is asked for again, and
// is not taken for a hole in the log.
func TestReadAcrossReconnect(t *testing.T) {
	rest := func(from uint64) [][]answered {
		part := []answered{{from, 0}}
		for pos := from + 1; pos < 7; pos++ {
			part = append(part, answered{pos, pos - 1})
		}
		return [][]answered{append(part, answered{0, 6})}
	}
	for name, c := range map[string]struct {
		answer [][]answered // the first one, to a read from 1
		again  uint64       // where the client asks to begin then
		lacks  bool         // the replica lacks something
	}{
		"lost in between":          {answer: [][]answered{{{1, 0}, {2, 1}}, {{5, 4}, {6, 5}}}, again: 3},
		"lost at the beginning":    {answer: [][]answered{{}, {{5, 4}, {6, 5}}}, again: 1},
		"lost to the end":          {answer: [][]answered{{}, {{0, 6}}}, again: 1},
		"a replica that lacks two": {answer: [][]answered{{{1, 0}, {2, 1}, {5, 2}, {6, 5}}}, again: 3, lacks: true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, once := range []bool{true, false} {
				fake := serveAnswers(t, [][][]answered{slices.Clone(c.answer), rest(c.again)})
				nc, err := nats.Connect("nats://"+fake.ln.Addr().String(), nats.ReconnectWait(time.Millisecond), nats.MaxReconnects(-1))
				must(t, err)
				s, err := newStream(nc, "S")
				must(t, err)
				var got []uint64
				each := func(pos uint64, _ *nats.Msg) error { got = append(got, pos); return nil }
				if once {
					_, err := s.readBatch(t.Context(), 1, 7, each)
					var missing *missingError
					if !errors.As(err, &missing) || missing.replied != c.lacks {
						t.Errorf("%v: the replica lacks it: %v, want %v", err, missing != nil && missing.replied, c.lacks)
					}
				} else if err := s.read(t.Context(), 1, 7, each); err != nil {
					t.Error(err)
				}
				nc.Close()
				fake.ln.Close()
				<-fake.ended
				if !once && (!slices.Equal(got, []uint64{1, 2, 3, 4, 5, 6}) || !slices.Equal(fake.reads, []uint64{1, c.again})) {
					t.Errorf("read %v, asked from %v; want 1 to 6, from 1 and %d", got, fake.reads, c.again)
				}
			}
		})
	}
}
