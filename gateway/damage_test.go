package gateway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/hone-go/hone/gateway/journal"
)

// holed is a log of which some envelopes are lost.
type holed struct {
	*Memory
	lost map[uint64]bool
}

func (h *holed) Read(ctx context.Context, from uint64, each func(uint64, []byte) error) error {
	return h.Memory.Read(ctx, from, func(pos uint64, envelope []byte) error {
		if h.lost[pos] {
			return &journal.Damage{First: pos, Last: pos, Err: errors.New("a flipped bit")}
		}
		return each(pos, envelope)
	})
}

// written fills a log with records of three clients, their claims and checkpoints of several envelopes, and
// returns what each client has in it and where the newest complete checkpoint begins.
func written(t *testing.T, log journal.Log) (last map[string]uint64, base uint64) {
	t.Helper()
	o := recovered(t, &Server{Log: log})
	last = map[string]uint64{}
	for round := range 4 {
		for i := range 3 {
			name := fmt.Sprint("c", i)
			l, known, err := o.hello(hello{next: last[name] + 1, client: name, epoch: known(o, name)})
			must(t, err)
			for range 3 {
				last[name]++
				o.write(l, last[name], "data")
			}
			known.link = nil
		}
		if round < 3 {
			must(t, o.committer.checkpoint())
		}
	}
	return last, o.queue.base
}

// known returns the epoch of a client's session; 0: it has none.
func known(o *offline, client string) uint64 {
	if session := o.sessions.byClient[client]; session != nil {
		return session.epoch
	}
	return 0
}

// opened recovers a server on a log; the error is that of a Serve.
func opened(t *testing.T, log journal.Log, accept journal.Range) (*offline, error) {
	t.Helper()
	s := &Server{Log: log, AcceptLoss: accept}
	s.prepared.Do(s.prepare)
	t.Cleanup(s.cancel)
	err := s.committer.recover(t.Context())
	return &offline{Server: s, t: t}, err
}

// TestLostEnvelopes loses each envelope of a log in turn. Those before the newest checkpoint cost nothing.
// Later ones are refused, until the operator accepts their loss. That is written down: the next start
// needs no flag. TestLossesAreTold knows what clients are told then.
func TestLostEnvelopes(t *testing.T) {
	log := new(Memory)
	last, base := written(t, log)
	_, end, _ := log.Bounds()
	for pos := uint64(1); pos < end; pos++ {
		whole := holedCopy(t, log, map[uint64]bool{pos: true})
		o, err := opened(t, whole, journal.Range{})
		if pos < base {
			if err != nil {
				t.Errorf("position %d, before the checkpoint at %d: %v", pos, base, err)
				continue
			}
			for name, n := range last {
				if got := o.sessions.byClient[name].accepted; got != n {
					t.Errorf("position %d: client %s has %d, want %d", pos, name, got, n)
				}
			}
			continue
		}
		var refusal *journal.Refusal
		var lost *journal.Damage
		if !errors.As(err, &refusal) || !errors.As(err, &lost) || lost.First != pos {
			t.Fatalf("position %d, after the checkpoint at %d: %v", pos, base, err)
		}
		if _, err := opened(t, whole, journal.Range{First: 1, Last: pos - 1}); !errors.As(err, &refusal) {
			t.Errorf("position %d is refused when the loss of others is accepted: %v", pos, err)
		}
		if o, err = opened(t, whole, journal.Range{First: pos, Last: pos}); err != nil {
			t.Fatalf("position %d, accepted: %v", pos, err)
		}
		must(t, o.committer.bury())
		if _, err = opened(t, whole, journal.Range{}); err != nil {
			t.Fatalf("position %d, the start after the accepted one: %v", pos, err)
		}
		if c, err := Check(t.Context(), whole, nil); err != nil || c.Lost != 1 || c.Accepted != 1 {
			t.Errorf("position %d: %+v, %v", pos, c, err)
		}
	}
}

// TestAcceptedButNotBuried crashes after the tombstones and before the checkpoint that follows them.
func TestAcceptedButNotBuried(t *testing.T) {
	log := &holed{Memory: new(Memory)}
	_, base := written(t, log)
	log.lost = map[uint64]bool{base: true, base + 3: true}
	o, err := opened(t, log, journal.Range{First: base, Last: base + 3})
	must(t, err)
	_, before, _ := log.Bounds()
	must(t, o.committer.bury())
	for keep := before; ; keep++ {
		cut := &holed{new(Memory), log.lost}
		all := uint64(0)
		must(t, log.Memory.Read(t.Context(), 0, func(pos uint64, b []byte) error {
			if all++; pos > keep {
				return nil
			}
			_, err := cut.Memory.Append(t.Context(), b)
			return err
		}))
		if _, err := opened(t, cut, journal.Range{}); err != nil {
			t.Errorf("%d of %d envelopes after the hole's acceptance: %v", keep+1-before, all+1-before, err)
		}
		if keep >= all {
			break
		}
	}
}

// holedCopy returns a copy of a log without some of its envelopes.
func holedCopy(t *testing.T, log journal.Log, lost map[uint64]bool) *holed {
	t.Helper()
	h := &holed{new(Memory), lost}
	must(t, log.Read(t.Context(), 0, func(_ uint64, b []byte) error {
		_, err := h.Memory.Append(t.Context(), b)
		return err
	}))
	return h
}

// TestLossesAreTold accepts the loss of envelopes of all kinds, in the middle of sessions, at their ends and at the
// beginning of the log. Each client whose records are gone is refused with ErrRegressed, in later starts too, until it
// begins a new session; nobody else is.
func TestLossesAreTold(t *testing.T) {
	log := new(Memory)
	last, base := written(t, log)
	_, end, _ := log.Bounds()
	owner := map[uint64]string{} // of the record in an envelope
	epochs := map[string]uint64{}
	must(t, log.Read(t.Context(), 0, func(pos uint64, b []byte) error {
		e, err := journal.Decode(b)
		for r := range e.Records() {
			owner[pos], epochs[r.Client] = r.Client, r.Epoch
		}
		return err
	}))
	told := func(what string, log journal.Log, accept journal.Range, gone map[string]bool) {
		t.Helper()
		for start := range 3 {
			o, err := opened(t, log, accept)
			must(t, err)
			must(t, o.committer.bury())
			for name, n := range last {
				l, _, err := o.hello(hello{client: name, epoch: epochs[name], next: n + 1})
				if errors.Is(err, ErrRegressed) != gone[name] || err != nil && !gone[name] {
					t.Errorf("%s, start %d: %s, whose records are gone: %v, is told %v", what, start, name, gone[name], err)
				}
				if start == 2 && err == nil {
					o.write(l, n+1, "goes on")
				}
				if start == 2 && err != nil {
					if l, _, err = o.hello(hello{client: name, next: 1}); err != nil {
						t.Errorf("%s: a new session of %s: %v", what, name, err)
						continue
					}
					o.write(l, 1, "new")
				}
			}
			accept = journal.Range{}
		}
	}
	for first := base; first < end; first++ {
		for _, more := range []uint64{0, 1, 5, end} {
			accept := journal.Range{First: first, Last: min(first+more, end-1)}
			lost, gone := map[uint64]bool{}, map[string]bool{}
			for pos := first; pos <= accept.Last; pos++ {
				if lost[pos] = true; owner[pos] != "" {
					gone[owner[pos]] = true
				}
			}
			told(fmt.Sprintf("%d to %d", first, accept.Last), holedCopy(t, log, maps.Clone(lost)), accept, gone)
		}
	}
	cut := holedCopy(t, log, nil)
	must(t, cut.Memory.Trim(t.Context(), base-1))
	all := map[string]bool{}
	for name := range last {
		all[name] = true
	}
	told("the beginning", cut.Memory, journal.Range{First: 1, Last: base - 2}, all)
}

// TestLossIsSaidAtOnce: a refusal names all that a start with its flag loses, also if the newest checkpoint is lost and
// the one before is needed.
func TestLossIsSaidAtOnce(t *testing.T) {
	log := new(Memory)
	_, base := written(t, log)
	cut := holedCopy(t, log, map[uint64]bool{base - 3: true, base - 2: true, base: true})
	_, err := opened(t, cut, journal.Range{})
	refusal, is := errors.AsType[*journal.Refusal](err)
	want := fmt.Sprintf("--accept-loss %d-%d: the records of 3 envelopes there", base-3, base)
	if !is || !strings.Contains(refusal.Repair, want) {
		t.Errorf("%v, want %s", err, want)
	}
	o, err := opened(t, cut, journal.Range{First: base - 3, Last: base})
	must(t, err)
	if len(o.committer.accepted) != 3 {
		t.Errorf("%d envelopes are lost", len(o.committer.accepted))
	}
}

// TestTrim: a server keeps what the next start needs, and a log that begins where no server trimmed it is
// refused.
func TestTrim(t *testing.T) {
	log := new(Memory)
	last, base := written(t, log)
	u := serve(t, &Server{Log: log})
	must(t, u.Server.Trim(t.Context(), 2))
	if first, _, _ := log.Bounds(); first != 2 {
		t.Errorf("it begins at %d, want 2", first)
	}
	must(t, u.Server.Trim(t.Context(), 1<<40))
	first, next, _ := log.Bounds()
	if first < base || first >= next {
		t.Errorf("trimmed to %d; the newest checkpoint was at %d, the next position is %d", first, base, next)
	}
	must(t, u.Server.Shutdown(soon(t)))
	o, err := opened(t, log, journal.Range{})
	must(t, err)
	for name, n := range last {
		if got := o.sessions.byClient[name].accepted; got != n {
			t.Errorf("client %s has %d, want %d", name, got, n)
		}
	}
	if _, err := Check(t.Context(), log, nil); err != nil {
		t.Error(err)
	}
	if err := log.Trim(t.Context(), first+2); err != nil { // not by a server
		t.Fatal(err)
	}
	var refusal *journal.Refusal
	if _, err := opened(t, log, journal.Range{}); !errors.As(err, &refusal) {
		t.Errorf("a log whose beginning is gone: %v", err)
	}
	if _, err := Check(t.Context(), log, nil); err == nil {
		t.Error("Check accepts a log whose beginning is gone")
	}
}

// TestCheckpointBytes: checkpoints come by bytes too, counted from the one before a crash.
func TestCheckpointBytes(t *testing.T) {
	log := new(Memory)
	for range 3 { // as many crashes
		o := recovered(t, &Server{Log: log, CheckpointBytes: 10_000})
		l, session, err := o.hello(hello{next: 1, client: "c"})
		must(t, err)
		for seq := uint64(1); seq <= 6; seq++ {
			o.write(l, seq, string(make([]byte, 900)))
		}
		session.link = nil
	}
	o := recovered(t, &Server{Log: log, CheckpointBytes: 10_000})
	if o.committer.since.bytes < 15_000 || o.committer.since.envelopes < 18 {
		t.Fatalf("%+v since the newest checkpoint", o.committer.since)
	}
	u := serve(t, &Server{Log: log, CheckpointBytes: 10_000})
	c := u.client(t, "d")
	works(t)(c.Submit(t.Context(), []byte("x")))
	must(t, c.Close(t.Context()))
	waitFor(t, "a checkpoint", u.Server.locked(func() bool { return u.Server.queue.base > 0 }))
	must(t, u.Server.Shutdown(soon(t)))
	read := 0 // a start after a clean stop reads the checkpoint and nothing before it
	_, next, _ := log.Bounds()
	o = recovered(t, &Server{Log: &counting{Log: log, n: &read}})
	if read > 2 || known(o, "c") == 0 {
		t.Errorf("a start after a clean stop reads %d envelopes of %d", read, next-1)
	}
}

// counting counts the envelopes that are read.
type counting struct {
	journal.Log
	n *int
}

func (c *counting) Read(ctx context.Context, from uint64, each func(uint64, []byte) error) error {
	return c.Log.Read(ctx, from, func(pos uint64, b []byte) error { *c.n++; return each(pos, b) })
}
