package gateway

import "time"

// tickReaders wakes the committer for positions that no envelope of records has taken along.
func (s *Server) tickReaders() {
	r := &s.readers
	ticker := time.NewTicker(s.positionTime)
	defer ticker.Stop()
	retained, said := time.Now(), ""
	for {
		grown := false
		select {
		case <-ticker.C:
		case <-s.grown:
			grown = true
		case <-r.ctx.Done():
			return
		}
		if now := time.Now(); grown || now.Sub(retained) >= s.retainTime {
			retained = now
			if err := s.retain(r.ctx); err == nil {
				said = ""
			} else if text := err.Error(); text != said && r.ctx.Err() == nil {
				s.log.Warn("cannot measure or trim the log", "err", err)
				said = text
			}
		}
		r.mu.Lock()
		due := len(r.dirty) > 0
		for h := range r.holders {
			if h.state == parked && h.out.Excluded > 0 && time.Since(h.told) >= s.tellTime {
				h.state = blocked
				r.wake(h)
			}
		}
		r.mu.Unlock()
		if due {
			s.queue.ask(func(p *pack) { p.positions = true })
		}
	}
}

// tickTime is how often a quiet server reads its clocks.
const tickTime = time.Minute

// every calls do periodically until the server ends.
func (s *Server) every(period time.Duration, do func()) {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			do()
		case <-s.readers.ctx.Done():
			return
		}
	}
}

// tick wakes the committer when a quiet server should store its clock or a checkpoint.
func (s *Server) tick() {
	s.reportClock()
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

// tokensTime is how often the file of tokens is looked at.
const tokensTime = time.Second

// followTokens looks at the file of tokens until the server ends.
func (s *Server) followTokens() {
	ticker := time.NewTicker(s.tokensTime)
	defer ticker.Stop()
	said, used := "", s.Tokens.byName.Load()
	for {
		select {
		case <-ticker.C:
		case <-s.readers.ctx.Done():
			return
		}
		text := ""
		if err := s.Tokens.read(); err != nil {
			text = err.Error()
		}
		if text != said && text != "" {
			s.log.Error("the changed file of tokens cannot be used; the tokens before stay in use", "err", text)
		}
		said = text
		if now := s.Tokens.byName.Load(); now != used {
			used = now
			s.log.Info("tokens reloaded", "sessions_ended", s.revoke())
		}
	}
}
