//go:build !linux

package sys

import "errors"

// Polls reports that Poll and Take work on this system.
const Polls = false

// Ready is not supported here.
type Ready struct{}

// Key returns 0 here.
func (r *Ready) Key() uint64 { return 0 }

// In returns false here.
func (r *Ready) In() bool { return false }

// Out returns false here.
func (r *Ready) Out() bool { return false }

// Broken returns false here.
func (r *Ready) Broken() bool { return false }

// HungUp returns false here.
func (r *Ready) HungUp() bool { return false }

// Poll is not supported here.
type Poll struct{}

// NewPoll is not supported here.
func NewPoll(Fault) (*Poll, error) { return nil, errors.ErrUnsupported }

// Add is not supported here.
func (p *Poll) Add(Socket, Interest, uint64) error { return errors.ErrUnsupported }

// Change is not supported here.
func (p *Poll) Change(Socket, Interest, uint64) error { return errors.ErrUnsupported }

// Remove is not supported here.
func (p *Poll) Remove(Socket) error { return errors.ErrUnsupported }

// Now returns 0 here.
func (p *Poll) Now([]Ready) int { return 0 }

// Block returns 0 here.
func (p *Poll) Block([]Ready) int { return 0 }

// Park returns 0 here.
func (p *Poll) Park([]Ready) int { return 0 }

// Unpark does nothing here.
func (p *Poll) Unpark() {}

// Wake is not supported here.
func (p *Poll) Wake() error { return errors.ErrUnsupported }

// Read is not supported here.
func (p *Poll) Read(Socket, []byte) (int, error) { return 0, errors.ErrUnsupported }

// Write is not supported here.
func (p *Poll) Write(Socket, []byte) (int, error) { return 0, errors.ErrUnsupported }

// Close is not supported here.
func (p *Poll) Close() error { return errors.ErrUnsupported }
