package gateway

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/gateway/journal"
)

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

// TestRetainQuietLog: by age, also the records of a log are deleted to which nothing comes any more, and which has one
// small segment.
func TestRetainQuietLog(t *testing.T) {
	log, err := journal.OpenSegments(t.TempDir(), journal.SegmentsOptions{SegmentTime: time.Nanosecond})
	must(t, err)
	defer log.Close()
	running := new(atomic.Int64)
	up := serve(t, &Server{
		Log: log, RetainAge: 24 * time.Hour, retainTime: time.Millisecond, positionTime: time.Millisecond,
		now: func() (int64, int64) { return 1_800_000_000_000 + running.Load(), running.Load() },
	})
	up.submits(t, "a", 10)
	stored := up.Stats().Position
	for range 30 {
		running.Add(hour)
		before := up.Stats().Envelopes
		up.tick()
		waitFor(t, "the clock", func() bool { return up.Stats().Envelopes > before })
	}
	waitFor(t, "the record to be deleted", func() bool {
		first, _, err := log.Bounds()
		return err != nil || first > stored
	})
}
