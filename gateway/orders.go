package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hone-go/hone/gateway/journal"
)

// ReaderOrder is what an operator wants of a reader.
type ReaderOrder struct {
	Do     string        `json:"do"` // create, move, split or remove
	Name   string        `json:"name"`
	Shares int           `json:"shares,omitempty"` // to create (zero: 1) or to split into
	Start  Start         `json:"start,omitempty"`  // to create or move: FromFirst, FromNext, FromTime or FromNumber
	At     uint64        `json:"at,omitempty"`     // the time in milliseconds, or the number
	Expire time.Duration `json:"expire,omitempty"` // to create: after that time away it no longer holds the log; 0: Server.ReaderExpiry
}

// errRefused is wrapped by the errors of orders that change nothing.
var errRefused = errors.New("gateway: refused")

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
	return s.order(ctx, func(c *committer) (refused, failed error) {
		return c.changeCursors(func(next uint64, running int64) ([]journal.Position, error) {
			return s.readers.ordered(&o, number, next, running)
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

// ordered returns what to store for an order; mu is held.
func (r *readers) ordered(o *ReaderOrder, number, next uint64, running int64) ([]journal.Position, error) {
	all, generation, slowest, expire := r.cursors[o.Name], next, uint64(maxNumber), o.Expire.Milliseconds()
	for _, p := range all {
		generation, slowest = max(generation, p.generation+1), min(slowest, p.number)
		if o.Do != "create" {
			expire = p.expire
		}
	}
	shares := len(all)
	switch {
	case o.Do == "create" && all != nil:
		return nil, fmt.Errorf("%w: there is a reader %s", errRefused, o.Name)
	case o.Do != "create" && all == nil:
		return nil, fmt.Errorf("%w: %s", ErrNoReader, o.Name)
	case o.Do == "remove":
		return []journal.Position{{Name: o.Name, Of: 1, Generation: generation, Removed: true, Ordered: true}}, nil
	case o.Do == "split":
		number, shares = slowest, o.Shares
	case o.Do == "create":
		shares = o.Shares
	}
	removed, err := r.displaced(shares-len(all), running, next)
	if err != nil {
		return nil, err
	}
	entries := newCursors(o.Name, uint16(shares), number, generation, expire)
	for i := range entries {
		entries[i].Ordered = true
	}
	return append(removed, entries...), nil
}

// order has the committer do something, and waits.
func (s *Server) order(ctx context.Context, do func(*committer) (refused, failed error)) error {
	done := make(chan error, 1)
	if !s.queue.addChange(change{do, func(refused error) { done <- refused }}) {
		return ErrServerClosed
	}
	return s.await(ctx, done)
}

// SessionState is a client's session.
type SessionState struct {
	Client    string        `json:"client"`
	Epoch     uint64        `json:"epoch"`
	Last      uint64        `json:"last"` // newest record in the log
	Connected bool          `json:"connected"`
	Away      time.Duration `json:"away_ns"` // for how long it was not connected, of running time
}

// SessionStates returns up to most sessions of clients whose names begin with prefix and come after a name, in
// the order of the names.
func (s *Server) SessionStates(prefix, after string, most int) []SessionState {
	s.prepared.Do(s.prepare)
	s.queue.mu.Lock()
	names := slices.Collect(maps.Keys(s.sessions.byClient))
	s.queue.mu.Unlock()
	names = slices.DeleteFunc(names, func(name string) bool { return name <= after || !strings.HasPrefix(name, prefix) })
	slices.Sort(names)
	all := []SessionState{}
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	for _, name := range names[:min(len(names), max(most, 0))] {
		known := s.sessions.byClient[name]
		if known == nil {
			continue
		}
		st := SessionState{Client: name, Epoch: known.epoch, Last: known.durable.Load(), Connected: known.link != nil}
		if !st.Connected {
			st.Away = time.Duration(max(s.clock.running-known.seen, 0)) * time.Millisecond
		}
		all = append(all, st)
	}
	return all
}

// ForgetSession ends a client's session: the client is refused with ErrExpired when it resumes it, and may
// begin a new one. It returns when that is stored.
func (s *Server) ForgetSession(ctx context.Context, client string) error {
	if err := s.start(ctx); err != nil {
		return err
	}
	return s.order(ctx, func(c *committer) (refused, failed error) { return c.forget(client) })
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
