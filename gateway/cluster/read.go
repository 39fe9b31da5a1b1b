package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/hone-go/hone/gateway/journal"
)

// Follow is Read, and the next Append expects to follow the last envelope that Follow yielded.
func (l *Log) Follow(ctx context.Context, from uint64, each func(pos uint64, envelope []byte) error) error {
	said := uint64(0)
	l.sequencer.Between(func() { said, l.heard = l.heard, 0 })
	patience := ctx
	if from < said {
		brief, cancel := context.WithTimeout(ctx, turnPatience)
		defer cancel()
		patience = brief
	}
	known, err := l.read(patience, from, said, each)
	if err != nil && (from >= said || ctx.Err() != nil) { // else the next Follow has the error
		return err
	}
	l.sequencer.Between(func() {
		l.next = max(l.next, known)
		l.sequencer.Tell(l.next, nil)
	})
	return nil
}

// Read calls each for every envelope from position from.
//
// JetStream may store an envelope twice after an election. Read yields it once, and yields an
// empty envelope of records in place of the duplicate.
func (l *Log) Read(ctx context.Context, from uint64, each func(pos uint64, envelope []byte) error) error {
	_, err := l.read(ctx, from, 0, each)
	return err
}

// read is Read. It returns the position after the last envelope. If another writer has said
// that everything before position said will be stored in a moment, it waits for that until ctx ends.
func (l *Log) read(ctx context.Context, from, said uint64, each func(pos uint64, envelope []byte) error) (end uint64, err error) {
	first, next, ask := max(from, 2)-1, said, l.stream.readSoon
	if from >= said {
		ask = l.stream.read
		if first, next, err = l.bounds(ctx); err != nil {
			return 0, err
		}
	}
	switch from = cmp.Or(from, first); {
	case from < first:
		return 0, &journal.TrimmedError{First: first}
	case from >= next:
		return next, nil
	}
	previous := ""
	end = from
	one := func(pos uint64, m *nats.Msg) error {
		envelope, writer := m.Data, m.Header.Get(writerHeader)
		if writer != "" && writer == previous {
			envelope = emptied(envelope)
		}
		previous = writer
		if pos < from {
			return nil
		}
		if err := each(pos, envelope); err != nil {
			return err
		}
		end = pos + 1
		return nil
	}
	err = ask(ctx, max(from-1, first), next, one)
	lost, isLost := errors.AsType[*journal.Damage](err)
	trimmed, isTrimmed := errors.AsType[*journal.TrimmedError](err)
	if isLost && lost.First < from || isTrimmed && trimmed.First <= from {
		err = l.stream.read(ctx, from, next, one) // the one before it is gone, and what its writer was
	}
	return end, err
}

// emptied returns an envelope without entries that has the base of another.
func emptied(envelope []byte) []byte {
	var e journal.Encoder
	base := uint64(0)
	if full, err := journal.Decode(envelope); err == nil {
		base = full.Base
	}
	e.Begin(base)
	return e.Bytes()
}

// Bounds asks the leader of the stream for the bounds.
func (l *Log) Bounds() (first, next uint64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	return l.bounds(ctx)
}

func (l *Log) bounds(ctx context.Context) (first, next uint64, err error) {
	info, err := l.awaitState(ctx)
	if errors.Is(err, nats.ErrConnectionClosed) {
		return 0, 0, journal.ErrClosed
	}
	if err != nil {
		return 0, 0, fmt.Errorf("journal: %w", err)
	}
	first, next = bounds(info.State)
	return first, next, nil
}

// Measure measures the stream. All envelopes count as equally long, and Trim as worth its while for
// trimStep of them.
func (l *Log) Measure(ctx context.Context) (func(pos uint64) (begins uint64, after int64), error) {
	info, err := l.awaitState(ctx)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	first, next := bounds(info.State)
	return func(pos uint64) (begins uint64, after int64) {
		if pos = max(pos, first); pos < next {
			after = int64(float64(info.State.Bytes) * float64(next-pos) / float64(next-first))
		}
		return max(pos-pos%trimStep, first), after
	}, nil
}

const trimStep = 256

// Verify reads and checks every envelope.
func (l *Log) Verify(ctx context.Context, rate int64, progress func(done, all uint64)) error {
	return journal.VerifyReads(ctx, l, rate, progress)
}

// Wait returns when the envelope at position pos is stored. An Append of this process wakes it at once.
// For those of others it sends a request of 300 bytes every 100 ms, to the nearest replica instead of the
// leader, and receives the envelope once.
func (l *Log) Wait(ctx context.Context, pos uint64) error {
	return l.sequencer.wait(ctx, pos, func() bool { return l.stream.reaches(ctx, pos) })
}
