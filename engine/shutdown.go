package engine

import (
	"context"
	"fmt"
	"time"
)

// Drained says how a Shutdown went, in connections but for Owed.
type Drained struct {
	Clean  int // answered, flushed and closed in peace
	Forced int // cut off when the context ended
	Owed   int // late replies that never came
	Stuck  int // of the forced: had not ended when Shutdown returned, mostly because of user code
}

// Shutdown stops accepting, answers what was sent, flushes and closes. When ctx
// ends first, the connections that are left are cut off; handlers that do not
// return are left behind and counted. It returns ctx's error in that case, at most
// some 50 ms later.
func (s *Server) Shutdown(ctx context.Context) (Drained, error) {
	s.init()
	var err error
	if s.leaving.CompareAndSwap(false, true) {
		err = s.shutdown(ctx)
		close(s.gone)
	} else {
		select {
		case <-s.gone:
		case <-ctx.Done():
			err = fmt.Errorf("engine: shutdown: %w", ctx.Err())
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drained, err
}

// forceTime is what Shutdown still takes when its patience has ended: for
// connections that are not inside user code it is time enough to end.
const forceTime = 30 * time.Millisecond

// drainLinger is how long a peer that has been told everything may keep its end
// open in a drain. It has had the refusal by then, or is not there.
const drainLinger = 250 * time.Millisecond

func (s *Server) shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.draining.Store(true)
	for ln := range s.listeners {
		(*ln).Close()
	}
	if s.open == 0 {
		close(s.empty)
	}
	s.mu.Unlock()
	go s.each(func(k connRef) { k.notify() }) // a crowd may take longer than ctx lasts
	s.clock.sweepNow()                        // it sweeps faster now

	var err error
	select {
	case <-s.empty:
	case <-ctx.Done():
		err = ctx.Err()
	case <-s.hurry:
		err = ErrServerClosed
	}
	var until time.Time // while the patience lasts: no moment
	if err != nil {
		err = fmt.Errorf("engine: shutdown: %w", err)
		until = time.Now().Add(forceTime)
		s.force(until)
	}
	s.cancel()
	close(s.stop)
	for _, l := range s.started() {
		l.end()
	}
	s.helpers.end()
	s.hurryRefusals()
	s.waitForGoroutines(ctx, until)
	return err
}

// force cuts off every connection that is left and gives them some time to end.
func (s *Server) force(until time.Time) {
	s.cancel()
	s.forced.Store(true) // whoever is being accepted is either cut off below, or sees this
	owed := make(chan int, 1)
	go func() { // a crowd may take longer than there is time
		sum := 0
		s.each(func(k connRef) {
			if x := k.x.Load(); x != nil {
				sum += int(x.promises.open)
			}
			k.abort(Forced)
		})
		s.helpers.unbind()
		owed <- sum
		s.abandoned.Store(true)
		for _, l := range s.started() {
			l.end()
		}
	}()
	rescue, late := time.After(forceTime/4), time.After(time.Until(until))
	empty, sum := s.empty, 0
	for waiting := 2; waiting > 0; {
		select {
		case <-empty:
			empty = nil
			waiting--
		case sum = <-owed:
			waiting--
		case <-rescue:
			s.rescue()
		case <-late:
			waiting = 0
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drained.Owed += sum
	if s.open > 0 {
		s.drained.Stuck = s.open
		s.drained.Forced += s.open
		s.drainEnded = true
	}
}

// waitForGoroutines waits for all that the server has started, unless some of it is
// stuck in user code or the time is up.
func (s *Server) waitForGoroutines(ctx context.Context, until time.Time) {
	if s.drained.Stuck > 0 {
		return
	}
	done := make(chan struct{})
	go func() {
		s.goroutines.Wait()
		close(done)
	}()
	if until.IsZero() {
		select {
		case <-done:
			return
		case <-ctx.Done():
		case <-s.hurry:
		}
		until = time.Now().Add(forceTime)
	}
	select {
	case <-done:
	case <-time.After(time.Until(until)):
	}
}

// Close cuts off every connection at once; a Shutdown under way loses its
// patience too. It does not wait for handlers that do not return.
func (s *Server) Close() error {
	s.init()
	s.hurried.Do(func() { close(s.hurry) })
	s.Shutdown(context.Background())
	return nil
}
