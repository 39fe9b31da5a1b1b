package engine

import (
	"context"
	"fmt"
	"time"
)

// Shutdown drains the server: it stops accepting, answers the requests that were sent,
// flushes and closes. With Limits.SpreadTime it serves connections until their turn to end comes. It does not wait for sockets that were given away, nor for the visits
// that gave them. When ctx ends first, it forces the remaining connections closed,
// abandons handlers that do not return, and returns ctx's error at most about 50 ms
// later. Stats.Drained has the counts.
func (s *Server) Shutdown(ctx context.Context) error {
	s.init()
	if s.leaving.CompareAndSwap(false, true) {
		defer close(s.gone)
		s.result = s.shutdown(ctx)
		return s.result
	}
	select {
	case <-s.gone:
		return s.result
	case <-ctx.Done():
		return fmt.Errorf("engine: shutdown: %w", ctx.Err())
	}
}

// EndIdle ends the connections that have sent messages and are idle: no partial message
// has arrived, no reply is owed and no output is unsent. A request in transit at that
// moment may be lost. A connection that a handler is working on may end when the handler
// has returned. Connections lent by TakeOver stay.
func (s *Server) EndIdle() {
	s.init()
	s.each(func(k connRef) {
		if k.s.spoken && !k.s.dead && k.s.suspect == 0 && k.held().moments().IsIdle() {
			k.s.suspect = ClosedHere
			k.held().notify()
		}
	})
}

// How long forced connections get to end: enough time, unless they are inside user code,
// or very many. Shutdown is bound by its context; Close is not.
const (
	shutdownForce = 30 * time.Millisecond
	closeForce    = 500 * time.Millisecond
)

func (s *Server) shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.draining.Store(true)
	for closer := range s.listeners {
		(*closer)()
	}
	s.checkEmpty()
	s.mu.Unlock()
	s.spread(ctx)
	s.endsAll.Store(true)
	go s.each(func(k connRef) { k.held().notify() }) // many connections may take longer than ctx lasts
	s.clock.SweepNow()                               // the sweeper now runs faster

	var err error
	patience := shutdownForce
	select {
	case <-s.empty:
	case <-ctx.Done():
		err = ctx.Err()
	case <-s.hurry:
		err, patience = ErrServerClosed, closeForce
	}
	var until time.Time // zero while ctx has not ended
	if err != nil {
		err = fmt.Errorf("engine: shutdown: %w", err)
		until = time.Now().Add(patience)
		s.force(until)
	}
	s.mu.Lock()
	given := s.given > 0
	s.mu.Unlock()
	if given {
		s.abandoned.Store(true)
	}
	s.cancel()
	close(s.stop)
	for _, l := range s.started() {
		l.end()
	}
	s.helpers.end()
	s.refusals.End()
	s.waitForGoroutines(ctx, until, given)
	return err
}

// force cuts off every remaining connection and gives them some time to end.
func (s *Server) force(until time.Time) {
	s.cancel()
	s.forced.Store(true) // a connection being accepted is either cut off below, or sees this
	owed, seen, late := 0, 0, false
	s.each(func(k connRef) {
		if seen++; seen%256 == 0 && !time.Now().Before(until) {
			late = true
		}
		if late {
			return
		}
		if x := k.x.Load(); x != nil {
			owed += int(x.promises.Open())
		}
		k.held().abort(Forced)
	})
	if late { // very many connections take longer than there is time
		go s.abandon(true)
	} else {
		s.abandon(false)
	}
	rescue, over := time.After(time.Until(until)/4), time.After(time.Until(until))
	for waiting := true; waiting; {
		select {
		case <-s.empty:
			waiting = false
		case <-rescue:
			s.rescue()
		case <-over:
			waiting = false
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drained.Owed += owed
	if stuck := s.open - s.given; stuck > 0 {
		s.drained.Stuck = stuck
		s.drained.Forced += stuck
		s.drainEnded = true
	}
}

// abandon lets the loops end although user code may still have connections of theirs. It
// first cuts off the connections that have not been yet.
func (s *Server) abandon(cut bool) {
	if cut {
		s.each(func(k connRef) { k.held().abort(Forced) })
	}
	s.helpers.unbind()
	s.abandoned.Store(true)
	for _, l := range s.started() {
		l.end()
	}
}

// waitForGoroutines waits for all goroutines of the server, unless some are stuck in user
// code, may run user code with a socket that was given away, or the time is up, and then
// ends the log.
func (s *Server) waitForGoroutines(ctx context.Context, until time.Time, given bool) {
	stuck := given || s.drained.Stuck > 0
	done := make(chan struct{})
	go func() {
		if !stuck {
			s.goroutines.Wait()
		}
		s.faults.Close()
		close(done)
	}()
	if until.IsZero() {
		select {
		case <-done:
			return
		case <-ctx.Done():
		case <-s.hurry:
		}
		until = time.Now().Add(shutdownForce)
	}
	select {
	case <-done:
	case <-time.After(time.Until(until)):
	}
}

// Close cuts off every connection at once, and a Shutdown in progress stops waiting.
// Close does not wait for handlers that do not return.
func (s *Server) Close() error {
	s.init()
	s.hurried.Do(func() { close(s.hurry) })
	s.Shutdown(context.Background())
	return nil
}

// Context returns a context that is cancelled when the server is closed or a Shutdown's
// context ends, not when a drain starts.
func (s *Server) Context() context.Context {
	s.init()
	return s.ctx
}
