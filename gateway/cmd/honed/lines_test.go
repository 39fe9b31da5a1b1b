package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"syscall"
	"testing"

	"github.com/hone-go/hone/gateway/journal"
)

func TestExport(t *testing.T) {
	log, err := journal.OpenSegments(t.TempDir(), journal.SegmentsOptions{})
	must(t, err)
	defer log.Close()
	var e journal.Encoder
	add := func() {
		t.Helper()
		works(t)(log.Append(t.Context(), e.Bytes()))
	}
	e.Begin(0)
	must(t, e.Record(&journal.Record{Client: "meter-4", Epoch: 1, Seq: 12, Time: 1795381200125, Data: []byte("hello")}))
	add()
	e.BeginCheckpoint(journal.First|journal.Last, 0, nil)
	for _, s := range []journal.State{{Seen: 1795381200125}, {Seen: 1795381200125, Claim: true}} {
		s.Client, s.Epoch, s.Last = "meter-4", 1, 12
		must(t, e.State(&s))
	}
	add()
	e.BeginCheckpoint(journal.First, 4, nil)
	err = errors.Join(
		e.Clock(journal.Clock{Time: 1, Highest: 2, Running: 3, Since: 4, Moments: []journal.Moment{{Time: 5, Running: 6}}}),
		e.Trim(9),
		e.Record(&journal.Record{Client: "a", Epoch: 1, Seq: 2, Time: 3, Data: []byte("xyz"), Attributes: []journal.Attribute{
			{Kind: journal.Topic, Value: []byte("t")}, {Kind: journal.Property, Value: []byte("\x01nv")}, {Kind: 99}}}),
		e.State(&journal.State{Client: "a", Epoch: 1, Last: 2, Seen: 3, Claim: true, Summed: true, Sum: 4, Instance: 5}),
		e.Forgetting(&journal.Forgetting{Client: "b", Epoch: 6}),
		e.Tombstone(7),
	)
	must(t, err)
	add()
	var got bytes.Buffer
	must(t, exportLines(t.Context(), log, 0, &got))
	want := `{"pos":1,"client":"meter-4","epoch":1,"seq":12,"time":"2026-11-22T21:00:00.125Z","data":"aGVsbG8="}
{"client":"meter-4","epoch":1,"instance":0,"last":12,"pos":2,"records_lost":false,"seen":"2026-11-22T21:00:00.125Z"}
{"claimed":"2026-11-22T21:00:00.125Z","client":"meter-4","epoch":1,"instance":0,"last":12,"pos":2,"records_lost":false}
{"pos":3,"client":"a","epoch":1,"seq":2,"time":"1970-01-01T00:00:00.003Z","data":"eHl6","topic":"t","attributes":[{"kind":4,"value":"AW52"},{"kind":99,"value":""}]}
{"claimed":"1970-01-01T00:00:00.003Z","client":"a","epoch":1,"instance":5,"last":2,"pos":3,"records_lost":false,"sum":4}
{"epoch":6,"forgotten":"b","pos":3}
{"pos":3,"tombstone":7}
{"pos":3,"trimmed":9}
{"clock":"1970-01-01T00:00:00.001Z","highest_epoch":2,"pos":3,"running_ms":3,"since":4}
`
	if got.String() != want {
		t.Errorf("got\n%swant\n%s", got.String(), want)
	}
}

// verified is a log whose verification ends with an error.
type verified struct {
	journal.Reader
	err error
}

func (v verified) Verify(context.Context, int64, func(done, all uint64)) error { return v.err }

// A verification that lacks descriptors has not found damage, and does not forget what was found before.
func TestVerificationWithoutDescriptors(t *testing.T) {
	lacks := &fs.PathError{Op: "open", Path: "1.seg", Err: syscall.EMFILE}
	damage := &journal.Damage{First: 3, Last: 3, Err: errors.New("damaged")}
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	var v verification
	for i, c := range []struct {
		err      error
		complete bool
		damage   int64
	}{
		{lacks, false, 0},
		{errors.Join(damage, damage), true, 2},
		{errors.Join(damage, lacks), false, 2},
		{nil, true, 0},
		{&fs.PathError{Op: "read", Path: "1.seg", Err: syscall.EIO}, true, 1},
	} {
		if complete := v.once(t.Context(), verified{err: c.err}, 1, log); complete != c.complete || v.damage.Load() != c.damage {
			t.Errorf("%d: complete %v with %d places; want %v and %d", i, complete, v.damage.Load(), c.complete, c.damage)
		}
	}
}
