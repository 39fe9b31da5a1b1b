package gateway

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/gateway/internal/delivery"
	"github.com/hone-go/hone/gateway/journal"
)

// certScheme begins the URI in a certificate that lets its owner read: hone-reader:PREFIX.
const certScheme = "hone-reader"

// mayRead checks a reader's certificate and token, and returns the prefix of the clients that it may read.
func (s *Server) mayRead(h *holder) (prefix string, err error) {
	if s.Certificates {
		leaf, named, err := certificate(h.conn.TLS, h.opening.name)
		if err != nil {
			return "", err
		}
		at := slices.IndexFunc(leaf.URIs, func(uri *url.URL) bool { return uri.Scheme == certScheme })
		if !named || at < 0 {
			return "", fmt.Errorf("%w: the certificate does not name this reader", ErrUnauthorised)
		}
		prefix = leaf.URIs[at].Opaque
	}
	if s.Tokens != nil {
		h.proof = sha256.Sum256([]byte(h.opening.token))
		allowed, ok := s.Tokens.permits(h.opening.name, h.proof, true)
		if !ok || !strings.HasPrefix(allowed, prefix) && !strings.HasPrefix(prefix, allowed) {
			return "", ErrUnauthorised
		}
		if h.allowed = allowed; len(allowed) > len(prefix) {
			prefix = allowed
		}
	}
	return prefix, nil
}

// objection returns why a reader has to end, or nil: its token is gone, or permits something else
// than when the reader opened.
func (t *Tokens) objection(h *holder) error {
	switch allowed, ok := t.permits(h.opening.name, h.proof, true); {
	case !ok:
		return ErrUnauthorised
	case allowed != h.allowed:
		return errChanged
	}
	return nil
}

// narrow narrows a filter to what a permission allows, and reports false if that is nothing.
func (o *opening) narrow(prefix string) bool {
	switch {
	case o.client != "":
		return strings.HasPrefix(o.client, prefix)
	case o.prefix == "":
		o.prefix = prefix
	}
	return strings.HasPrefix(o.prefix, prefix)
}

// admit checks an open as far as that needs nothing of the log.
func (s *Server) admit(conn framed.Conn, content []byte) (*holder, error) {
	o, err := parseOpening(content)
	if err != nil {
		return nil, err
	}
	h := &holder{conn: conn, opening: o, state: queued, told: time.Now()}
	prefix, err := s.mayRead(h)
	if err != nil {
		return nil, err
	}
	if !h.opening.narrow(prefix) {
		return nil, fmt.Errorf("%w: it may read clients that begin with %q only", ErrUnauthorised, prefix)
	}
	h.opening.window = min(max(cmp.Or(o.window, defaultReadWindow), minReadWindow), uint32(s.mostWindow))
	return h, nil
}

// open has a feeder prepare the answer to an open, since that may read the log.
func (s *Server) open(h *holder) error {
	r := &s.readers
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.holders) >= s.Readers {
		return fmt.Errorf("%w: %d readers are connected", ErrTooMany, s.Readers)
	}
	if s.Tokens != nil { // revoke may have come between admit and this
		if err := s.Tokens.objection(h); err != nil {
			return err
		}
	}
	s.beginReaders()
	r.holders[h] = true
	r.run = append(r.run, h)
	r.work.Broadcast()
	return nil
}

// prepareOpening finds where a reader begins, and queues its cursor.
func (s *Server) prepareOpening(h *holder) {
	o, ctx := &h.opening, s.readers.ctx
	first, next, err := s.Log.Bounds()
	if err == nil {
		err = cmp.Or(s.checkPosition(ctx, o.own, first, next), s.checkPosition(ctx, o.resume, first, next))
	}
	if err == nil {
		h.number, err = s.startNumber(ctx, o.start, o.at, first, next)
	}
	plan := func(next uint64) ([]journal.Position, error) {
		if err != nil {
			return nil, err
		}
		return s.planOpening(h, next)
	}
	store := func() (refused, failed error) { return s.committer.changeCursors(plan) }
	if !s.queue.addChange(change{store, func(refused error) { s.welcomeReader(h, refused) }}) {
		h.conn.Close()
	}
}

// startNumber returns the number behind which a start is, in a log with these bounds; Stored: 0.
func (s *Server) startNumber(ctx context.Context, start Start, at, first, next uint64) (uint64, error) {
	switch start {
	case FromFirst:
		return before(first), nil
	case FromNext:
		return before(next), nil
	case FromNumber:
		if at>>indexBits > next {
			return 0, fmt.Errorf("%w: it ends at position %d", ErrRegressed, next-1)
		}
		return max(at, 1) - 1, nil
	case FromTime:
		pos, err := s.positionAt(ctx, int64(at), first, next)
		return before(pos), err
	}
	return 0, nil
}

// checkPosition returns ErrRegressed if the log has another record at a position than the reader has seen.
func (s *Server) checkPosition(ctx context.Context, p *Position, first, next uint64) error {
	if p == nil {
		return nil
	}
	pos := p.Number >> indexBits
	if pos >= next {
		return fmt.Errorf("%w: it ends at position %d, and the reader has read up to %d", ErrRegressed, next-1, pos)
	}
	if p.Sum == 0 || pos < first {
		return nil
	}
	err := s.Log.Read(ctx, pos, decoded(func(_ uint64, e journal.Envelope) error {
		if e.Sum() != p.Sum {
			return fmt.Errorf("%w: it has another envelope at position %d than the reader has read", ErrRegressed, pos)
		}
		return errFound
	}))
	if next, _ := missing(err); err == errFound || next > 0 {
		return nil // what is missing is told as a gap
	}
	return err
}

// begins returns behind which number a reader begins whose cursor is p, and which one is stored for it. Start is where it
// would begin without a cursor.
func (o *opening) begins(p *cursor, start uint64) (number, stored uint64) {
	switch {
	case o.own != nil && o.resume != nil: // the program goes on where it was, which may be ahead of what it has done
		return max(o.resume.Number, o.own.Number), o.own.Number
	case o.own != nil:
		return o.own.Number, o.own.Number
	case p == nil:
		return start, start
	case o.resume != nil && o.instance == p.instance && o.instance != 0: // the same, of what it has acknowledged
		return max(o.resume.Number, p.number), p.number
	case o.anew && o.start != Stored:
		return start, start
	}
	return p.number, p.number
}

// mayOpen returns why a reader must not open, or nil; readers.mu is held.
func (s *Server) mayOpen(h *holder, all []*cursor) error {
	o := &h.opening
	ofAnotherLog := func(p *Position) bool { return p != nil && p.Log != s.readers.log }
	switch {
	case ofAnotherLog(o.own) || ofAnotherLog(o.resume):
		return fmt.Errorf("%w: the position is of another log", ErrRegressed)
	case h.gone || h.client.Err() != nil: // it would take over from a connection that was opened later
		return ErrMoved
	case o.passing:
		return nil
	case all == nil && o.start == Stored && o.own == nil:
		return ErrNoReader
	case all == nil:
		return nil
	case len(all) != int(o.shares):
		return fmt.Errorf("%w: it has %d, not %d", ErrShares, len(all), o.shares)
	case o.yields && (all[o.share].holder != nil || s.Shared && all[o.share].instance != o.instance):
		return ErrMoved
	}
	return nil
}

// planOpening returns what to store for a reader that connects when the log has this next position; readers.mu is held.
func (s *Server) planOpening(h *holder, next uint64) ([]journal.Position, error) {
	r, o := &s.readers, &h.opening
	all := r.cursors[o.name]
	if err := s.mayOpen(h, all); err != nil {
		return nil, err
	}
	if o.passing {
		h.number, _ = o.begins(nil, h.number)
		return nil, nil
	}
	h.generation = next // higher than every one that this name ever had
	if all == nil {
		if err := r.hasRoom(int(o.shares)); err != nil {
			return nil, err
		}
		number, stored := o.begins(nil, h.number)
		h.number = number
		entries := newCursors(o.name, o.shares, stored, next, 0)
		entries[o.share].Instance = o.instance
		return entries, nil
	}
	p := all[o.share]
	h.generation = max(next, p.generation+1)
	e := p.position(0)
	h.number, e.Number = o.begins(p, h.number)
	e.Generation, e.Instance, e.Away = h.generation, o.instance, 0
	return []journal.Position{e}, nil
}

// welcomeReader answers an open once its cursor is stored.
func (s *Server) welcomeReader(h *holder, err error) {
	r, o := &s.readers, &h.opening
	r.mu.Lock()
	var p *cursor
	if all := r.cursors[o.name]; !o.passing && err == nil {
		p = all[o.share]
	}
	if h.gone {
		r.mu.Unlock()
		return
	}
	w := readWelcome{
		log: r.log, number: h.number, generation: h.generation, window: o.window,
		share: o.share, shares: o.shares, idle: s.idleTold(),
	}
	if err == nil {
		h.open, h.cursor = true, p
		h.out.Next, h.through = h.number+1, h.number
		h.out.Filter = delivery.Filter{Client: o.client, Prefix: o.prefix, Topic: o.topic, Share: uint32(o.share), Shares: uint32(o.shares)}
		if p != nil {
			p.holder = h
		}
	}
	r.mu.Unlock()
	var acks framed.Batch
	if err != nil {
		s.count.add(func(st *Stats) { st.Refused++ })
		h.reply.fail(&acks, err)
		acks.Send()
		h.conn.Close()
		return
	}
	h.reply.send(&acks, w.append(nil))
	acks.Send()
	r.mu.Lock()
	r.wake(h)
	r.mu.Unlock()
}
