package gateway

import (
	"context"
	"errors"
	"fmt"
	"sort"

	"github.com/hone-go/hone/gateway/journal"
)

// decoded returns a function for Read that calls each with what DecodeAt returns.
func decoded(each func(pos uint64, e journal.Envelope) error) func(pos uint64, envelope []byte) error {
	return func(pos uint64, envelope []byte) error {
		e, err := journal.DecodeAt(pos, envelope)
		if err != nil {
			return err
		}
		return each(pos, e)
	}
}

// missing returns the position behind envelopes that a read has not found, and why they are gone; 0: err is another
// error, or none.
func missing(err error) (next uint64, why Reason) {
	if lost, is := errors.AsType[*journal.Damage](err); is {
		return lost.Last + 1, Damaged
	}
	if trimmed, is := errors.AsType[*journal.TrimmedError](err); is {
		return trimmed.First, Trimmed
	}
	return 0, 0
}

var errFound = errors.New("found") // ends a Read

// ErrTwice is wrapped by the error of Check when a record is stored twice or out of order.
var ErrTwice = errors.New("gateway: a record is stored twice or out of order")

// Checked is the result of Check.
type Checked struct {
	First     uint64 `json:"first"` // position
	Envelopes uint64 `json:"envelopes"`
	Records   uint64 `json:"records"`
	Sessions  int    `json:"sessions"`
	LeftOut   uint64 `json:"left_out"` // gaps: sequence numbers without a record, within a session
	Lost      uint64 `json:"lost"`     // envelopes that cannot be read
	Accepted  uint64 `json:"accepted"` // of those, how many the operator has accepted
}

// Check reads a log and verifies that each record is stored once and in its client's order.
// It calls each, if not nil, for every record. Gaps in the sequence numbers are counted and
// are not an error: at level received a crash may lose records. Nor are lost envelopes, which
// Verify names.
func Check(ctx context.Context, log journal.Reader, each func(journal.Record) error) (c Checked, err error) {
	type numbering struct {
		client string
		epoch  uint64
	}
	last := map[numbering]uint64{}
	buried, trimmed := map[uint64]bool{}, uint64(0)
	if c.First, _, err = log.Bounds(); err != nil {
		return c, fmt.Errorf("gateway: %w", err)
	}
	at, whole := c.First, c.First == 1
	lost := func(d *journal.Damage) error {
		at = d.Last + 1
		c.Lost += d.Last + 1 - d.First
		for pos := d.First; pos <= d.Last && len(buried) < 1<<20; pos++ {
			buried[pos] = false
		}
		return nil
	}
	err = journal.ReadKept(ctx, log, c.First, decoded(func(pos uint64, e journal.Envelope) error {
		if pos > at { // a running server has trimmed what was there
			clear(last)
			whole = false
		}
		at = pos + 1
		c.Envelopes++
		trimmed = max(trimmed, e.Trimmed())
		for at := range e.Tombstones() {
			if done, is := buried[at]; is && !done {
				buried[at] = true
				c.Accepted++
			}
		}
		for r := range e.Records() {
			of := numbering{r.Client, r.Epoch}
			before := last[of]
			if r.Seq <= before {
				return fmt.Errorf("%w: client %s, epoch %d: %d comes after %d in envelope %d", ErrTwice, r.Client, r.Epoch, r.Seq, before, pos)
			}
			if before > 0 || whole { // else its first records may have been trimmed
				c.LeftOut += r.Seq - before - 1
			}
			c.Records++
			last[of] = r.Seq
			if each == nil {
				continue
			}
			if err := each(r); err != nil {
				return err
			}
		}
		return nil
	}), lost)
	if err == nil && c.First > max(trimmed, 1) {
		err = fmt.Errorf("gateway: the log begins at position %d, and was trimmed to position %d only: restore its beginning from a backup", c.First, trimmed)
	}
	c.Sessions = len(last)
	return c, err
}

// timeAt returns the log time of the first record from the envelope at pos on, and its position; next: there
// is none. With clocks, it also takes the clock that a quiet server stores.
func (s *Server) timeAt(ctx context.Context, pos, next uint64, clocks bool) (ms int64, at uint64, err error) {
	for pos < next {
		err := s.Log.Read(ctx, pos, decoded(func(p uint64, e journal.Envelope) error {
			for c := range e.Clocks() {
				if clocks {
					ms, at = c.Time, p
					return errFound
				}
			}
			for r := range e.Records() {
				ms, at = r.Time, p
				return errFound
			}
			return nil
		}))
		if err == errFound {
			return ms, at, nil
		}
		if pos, _ = missing(err); pos == 0 {
			return 0, next, err
		}
	}
	return 0, next, nil
}

// positionAt returns the first position of the newest stretch of log time whose records are of a time or later.
func (s *Server) positionAt(ctx context.Context, ms int64, first, next uint64) (pos uint64, err error) {
	first = max(first, s.times().since)
	n := sort.Search(int(next-first), func(i int) bool {
		if err != nil {
			return true
		}
		var at int64
		var found uint64
		at, found, err = s.timeAt(ctx, first+uint64(i), next, false)
		return err == nil && (found == next || at >= ms)
	})
	return first + uint64(n), err
}

// newestCheckpoint returns the position of the newest complete checkpoint that begins before position
// before; 0: none. The last envelope that can be read has it.
func (s *Server) newestCheckpoint(ctx context.Context, first, before uint64) (base uint64, err error) {
	for pos := before - 1; pos >= first && pos > 0; pos-- {
		err := s.Log.Read(ctx, pos, decoded(func(_ uint64, e journal.Envelope) error {
			base = e.Base
			return errFound
		}))
		if err == errFound {
			return base, nil
		}
		if !errors.As(err, new(*journal.Damage)) {
			return 0, err
		}
	}
	return 0, nil
}
