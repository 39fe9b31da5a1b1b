package gateway

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// tickTime is how often a quiet server reads its clocks.
const tickTime = time.Minute

// readClock moves the log's clock and returns its running time; queue.mu is held.
func (s *Server) readClock() (running int64) {
	s.clock.read(s.now())
	return s.clock.running
}

func (s *Server) times() clock {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	s.readClock()
	return s.clock
}

// reportClock logs what the clock has noticed.
func (s *Server) reportClock() {
	s.queue.mu.Lock()
	s.readClock()
	k := s.clock
	s.clock.notices = nil
	s.queue.mu.Unlock()
	for _, what := range k.notices {
		s.log.Warn(what, "log_time", time.UnixMilli(k.time).UTC(), "wall_clock", time.UnixMilli(k.wall).UTC())
	}
}

// AcceptClock makes log time follow the wall clock, forward or back, and returns when that is stored. It
// fails if log time follows it already.
func (s *Server) AcceptClock(ctx context.Context) error {
	if err := s.start(ctx); err != nil {
		return err
	}
	defer s.reportClock()
	return s.order(ctx, (*committer).acceptClock)
}

func (c *committer) acceptClock() (refused, failed error) {
	off := c.times().off
	if off == 0 {
		return fmt.Errorf("%w: log time follows the wall clock already", errRefused), nil
	}
	return nil, c.untilFirst(func() error {
		c.queue.mu.Lock()
		if off == 1 {
			c.clock.skip(c.clock.wall - c.clock.time)
		} else {
			c.clock.begin(c.next, c.clock.wall)
			c.restamp()
		}
		c.queue.mu.Unlock()
		return c.appendStates(0, 0, nil, nil, nil)
	})
}

// restamp has the records that wait take the time of a new stretch; queue.mu is held.
func (s *Server) restamp() {
	for _, p := range slices.Concat(s.queue.waiting, []*pack{s.queue.storing}) {
		if p != nil {
			p.began, p.restamp = s.clock.time, true
		}
	}
}

// checkpointsPerExpiry is how many checkpoints a quiet server stores while a session expires.
const checkpointsPerExpiry = 4

// ticking calls tick periodically until the server ends.
func (s *Server) ticking() {
	ticker := time.NewTicker(tickTime)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			s.tick()
		case <-s.readers.ctx.Done():
			return
		}
	}
}

// tick wakes the committer when a quiet server should store its clock or a checkpoint.
func (s *Server) tick() {
	s.reportClock()
	s.warnOfExpiry()
	why := s.Log.Status().Full
	s.queue.mu.Lock()
	_, waits := s.queue.oldest()
	s.queue.mu.Unlock()
	switch {
	case waits: // the committer finds out
	case why != nil:
		s.isFull(why)
	default:
		s.isNotFull()
	}
	s.queue.ask(func(p *pack) { p.tick = true })
}

// storeClock stores the clock before a pack if log time was moved by more than running time, and
// every hour, and how far the log may be trimmed. Recovery learns from it how long the servers have run.
func (c *committer) storeClock(p *pack) error {
	if p.tick || p.follow { // else a Trim of another server overtakes a quiet one
		if err := c.followOthers(); err != nil {
			return err
		}
	}
	c.queue.mu.Lock()
	c.readClock()
	due := c.clock.due() && p.records.Count() > 0 || p.tick && c.clock.running-c.noted >= min(time.Hour, c.Expiry/8).Milliseconds() ||
		c.queue.trims.wanted > c.queue.trims.logged
	c.queue.mu.Unlock()
	if !due {
		return nil
	}
	return c.untilFirst(func() error { return c.appendStates(0, 0, nil, nil, nil) })
}
