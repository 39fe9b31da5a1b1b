package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/gateway/journal"
)

// grant answers hellos. It stores a new session before it sends the welcome, so that no two
// clients ever get the same epoch. Where other servers append to the log, it also stores a
// claim for a resumed session, which ends that session on the other server.
func (c *committer) grant(requests []request, acks *framed.Batch) error {
	if len(requests) == 0 {
		return nil
	}
	if err := c.followOthers(); err != nil {
		return err
	}
	return c.untilFirst(func() error {
		claims := c.decide(requests)
		if len(claims) > 0 {
			if err := c.appendStates(0, 0, nil, claims, nil); err != nil {
				return err
			}
		}
		c.settle(requests, acks)
		return nil
	})
}

// decide finds each request's session or refusal, and the claims to store before the answers. A
// request without either is in the queue again.
func (c *committer) decide(requests []request) (claims []journal.State) {
	c.queue.mu.Lock()
	defer c.queue.mu.Unlock()
	c.readClock()
	newest := map[string]*request{} // that is neither stale nor revoked
	for i := range requests {
		r, why := &requests[i], error(nil)
		switch {
		case r.stale(c.Shared):
			why = fmt.Errorf("%w: the hello has waited %v for the log", errTooSlow, time.Since(r.came).Round(time.Second))
		case c.revoked(r.hello.client, r.link):
			why = ErrUnauthorised
		default:
			newest[r.hello.client] = r
		}
		if !r.passed {
			r.granted, r.refused = nil, why
		}
	}
	for i := range requests {
		r := &requests[i]
		switch {
		case r.passed || r.refused != nil:
			continue
		case newest[r.hello.client] != r:
			r.refused = ErrMoved
			continue
		}
		known, err := c.sessions.granted(r, c.clock.time, c.Clients)
		if r.refused = err; err != nil {
			continue
		}
		if c.postpone(r, known) {
			continue
		}
		r.granted = known
		claim := known.state(0, true)
		if r.hello.instance != 0 {
			claim.Instance = r.hello.instance
		}
		if c.Shared || r.hello.epoch == 0 || claim.Instance != known.instance {
			claims = append(claims, claim)
		}
	}
	return claims
}

// postpone puts the hello of a session that has unstored records behind them, and reports whether there were
// any. The welcome has to name everything that is stored, so nothing more comes over the old connection.
// queue.mu is held.
func (s *Server) postpone(r *request, known *session) bool {
	if r.hello.epoch == 0 || r.waited || known.accepted <= known.durable.Load() {
		return false
	}
	known.fence(ErrMoved)
	r.waited = true
	p := s.queue.last()
	p.requests = append(p.requests, *r)
	r.passed = true
	return true
}

// settle attaches the sessions to their connections and answers the hellos.
func (c *committer) settle(requests []request, acks *framed.Batch) {
	var room [welcomeSize]byte
	c.queue.mu.Lock()
	now := c.readClock()
	for i := range requests {
		r := &requests[i]
		if r.passed {
			continue
		}
		if r.refused == nil && c.postpone(r, r.granted) {
			continue // they have come while its claim was stored
		}
		if r.refused == nil {
			r.refused = c.sessions.settle(r, r.granted, c.revoked(r.hello.client, r.link), now)
		}
		if r.refused != nil {
			c.count.add(func(st *Stats) { st.Refused++ })
			r.reply.fail(acks, r.refused)
			continue
		}
		r.reply.send(acks, c.welcome(r, r.granted).append(room[:0]))
	}
	c.queue.mu.Unlock()
	acks.Send()
	for i := range requests {
		if requests[i].refused != nil {
			requests[i].link.conn.Close()
		}
	}
}

func (s *Server) welcome(r *request, known *session) welcome {
	return welcome{
		summed: known.summed && known.accepted == known.durable.Load(),
		sum:    known.storedSum,
		level:  r.link.level,
		epoch:  known.epoch,
		last:   known.durable.Load(),
		window: uint32(max(s.limits.InFlight, 1)),
		most:   uint32(s.most),
		idle:   s.idleTold(),
		expiry: s.Expiry,
	}
}

// follow reads what other servers have appended. When one of them has claimed a client, this
// server closes its own connection of that client and drops the client's queued records: the
// client resends them to the other server.
func (c *committer) follow() error { return c.Log.Follow(c.ctx, c.next, c.apply) }

// followOthers is follow, if there are other servers.
func (c *committer) followOthers() error {
	if c.Shared {
		return c.follow()
	}
	return nil
}

// untilFirst calls try, which appends to the log, again after whatever was appended before it. It gives up when the log
// has refused the next position for AppendTime and shows nothing there.
func (c *committer) untilFirst(try func() error) error {
	for since, at := time.Now(), c.next; ; {
		err := try()
		if !c.conflicts(err) {
			return err
		}
		if err := c.follow(); err != nil {
			return err
		}
		if c.next == at && errors.Is(err, journal.ErrConflict) { // the other's envelope may be in flight
			brief, cancel := context.WithTimeout(c.ctx, conflictTime)
			c.Log.Wait(brief, at)
			cancel()
			if err := c.follow(); err != nil {
				return err
			}
		}
		switch {
		case c.next > at || errors.Is(err, errMadeRoom):
			since, at = time.Now(), c.next
		case time.Since(since) > c.AppendTime:
			return fmt.Errorf("the log has refused position %d for %v and shows no envelope there", at, c.AppendTime)
		}
	}
}

// conflictTime is how long a server that has lost a race waits for the other's envelope before it tries again.
const conflictTime = 250 * time.Millisecond

func (s *Server) revoked(client string, l *link) bool {
	if s.Tokens == nil {
		return false
	}
	_, ok := s.Tokens.permits(client, l.proof, false)
	return !ok
}
