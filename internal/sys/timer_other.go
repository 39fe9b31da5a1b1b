//go:build !linux

package sys

import (
	"errors"
	"os"
	"sync"
	"time"
)

// Timer is based on package time, with its rounding; see the one for Linux.
type Timer struct {
	timer  *time.Timer
	once   sync.Once
	closed chan struct{}
}

// NewTimer returns a timer that is not set.
func NewTimer() (*Timer, error) {
	t := &Timer{timer: time.NewTimer(time.Hour), closed: make(chan struct{})}
	t.timer.Stop()
	return t, nil
}

// Set makes the timer fire once, after d.
func (t *Timer) Set(d time.Duration) error {
	t.timer.Reset(d)
	return nil
}

// WaitFor returns after d, or with os.ErrClosed after Close.
func (t *Timer) WaitFor(d time.Duration) error {
	t.timer.Reset(d)
	return t.Wait()
}

// Wait returns when the timer has fired, or with os.ErrClosed after Close.
func (t *Timer) Wait() error {
	select {
	case <-t.timer.C:
		return nil
	case <-t.closed:
		return os.ErrClosed
	}
}

// Watch is for systems with a Poll.
func (t *Timer) Watch(*Poll, uint64) error { return errors.ErrUnsupported }

// Close ends a Wait.
func (t *Timer) Close() error {
	t.once.Do(func() { close(t.closed) })
	t.timer.Stop()
	return nil
}
