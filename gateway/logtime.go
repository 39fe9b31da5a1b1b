package gateway

import (
	"fmt"
	"slices"
	"time"
)

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
