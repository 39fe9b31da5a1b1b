package gateway

import (
	"cmp"
	"context"
	"fmt"

	"github.com/hone-go/hone/gateway/journal"
)

// OrderReader creates, moves, splits or removes a reader, and returns when that is stored. Whoever
// reads under the name is told, and connects again. After a split all shares begin where the
// slowest one was, so that each record comes at least once.
func (s *Server) OrderReader(ctx context.Context, o ReaderOrder) error {
	if err := s.start(ctx); err != nil {
		return err
	}
	if err := s.checkOrder(&o); err != nil {
		return err
	}
	first, next, err := s.Log.Bounds()
	if err != nil {
		return err
	}
	number, err := s.startNumber(ctx, o.Start, o.At, first, next)
	if err != nil {
		return err
	}
	return s.order(ctx, func() (refused, failed error) {
		return s.committer.changeCursors(func(next uint64) ([]journal.Position, error) {
			return s.readers.ordered(&o, number, next)
		})
	})
}

func (s *Server) checkOrder(o *ReaderOrder) error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", errRefused, fmt.Sprintf(format, args...))
	}
	starts := o.Do == "create" || o.Do == "move"
	if err := checkClientID(o.Name); err != nil {
		return refuse("%v", err)
	}
	if o.Do == "create" {
		o.Shares = cmp.Or(o.Shares, 1)
	}
	switch {
	case !starts && o.Do != "split" && o.Do != "remove":
		return refuse("there is no order %q; use create, move, split or remove", o.Do)
	case starts && (o.Start == Stored || o.Start > FromNumber):
		return refuse("say where to: the first record, the next one, a time or a number")
	case (o.Do == "create" || o.Do == "split") && (o.Shares < 1 || o.Shares > maxShares):
		return refuse("a reader has 1 to %d shares, not %d", maxShares, o.Shares)
	case o.Expire < 0:
		return refuse("the time to expire is negative: %v", o.Expire)
	}
	return nil
}

// ForgetSession ends a client's session: the client is refused with ErrExpired when it resumes it, and may
// begin a new one. It returns when that is stored.
func (s *Server) ForgetSession(ctx context.Context, client string) error {
	return s.order(ctx, func() (refused, failed error) { return s.committer.forget(client) })
}

// forget stores that a client's session has ended.
func (c *committer) forget(client string) (refused, failed error) {
	failed = c.untilFirst(func() error {
		c.queue.mu.Lock()
		known := c.sessions.byClient[client]
		if known != nil {
			known.fence(ErrExpired)
		}
		busy := known != nil && known.accepted != known.durable.Load()
		c.queue.mu.Unlock()
		switch {
		case known == nil:
			refused = fmt.Errorf("%w: there is no session of %q", errRefused, client)
		case busy:
			refused = fmt.Errorf("%w: records of %s are being stored; its connection has been closed, try again", errRefused, client)
		}
		if refused != nil {
			return nil
		}
		return c.appendStates(0, 0, nil, nil, []*session{known})
	})
	return refused, failed
}

// AcceptClock makes log time follow the wall clock, forward or back, and returns when that is stored. It
// fails if log time follows it already.
func (s *Server) AcceptClock(ctx context.Context) error {
	defer s.reportClock()
	return s.order(ctx, s.committer.acceptClock)
}

// Trim deletes the envelopes before position to from the log, but none that a start needs: it keeps the
// newest checkpoint. What it may delete is written down first, so that a log whose beginning is gone for
// another reason is refused.
func (s *Server) Trim(ctx context.Context, to uint64) error {
	if err := s.start(ctx); err != nil {
		return err
	}
	return s.trim(ctx, to)
}
