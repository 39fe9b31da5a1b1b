package cluster

import (
	"context"
	"errors"
	"fmt"
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
