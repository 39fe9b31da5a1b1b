package gateway

import (
	"context"
	"errors"
	"sort"

	"github.com/hone-go/hone/gateway/journal"
)

// timeAt returns the log time of the first envelope from pos on that has one, and its position; 0: none has.
func (s *Server) timeAt(ctx context.Context, pos, next uint64) (ms int64, at uint64, err error) {
	found := errors.New("found")
	for pos < next {
		err := s.peek(ctx, pos, func(p uint64, envelope []byte) error {
			e, err := journal.Decode(envelope)
			if err != nil {
				return &journal.Damage{First: p, Last: p, Err: err}
			}
			for r := range e.Records() {
				ms, at = r.Time, p
				return found
			}
			return nil
		})
		var lost *journal.Damage
		var trimmed *journal.TrimmedError
		switch {
		case err == found:
			return ms, at, nil
		case errors.As(err, &lost):
			pos = lost.Last + 1
		case errors.As(err, &trimmed):
			pos = trimmed.First
		default:
			return 0, next, err
		}
	}
	return 0, next, nil
}

// positionAt returns the first position whose records are of a log time or later.
func (s *Server) positionAt(ctx context.Context, ms int64, first, next uint64) (pos uint64, err error) {
	n := sort.Search(int(next-first), func(i int) bool {
		if err != nil {
			return true
		}
		var at int64
		at, pos, err = s.timeAt(ctx, first+uint64(i), next)
		return err == nil && (pos == next || at >= ms)
	})
	return first + uint64(n), err
}
