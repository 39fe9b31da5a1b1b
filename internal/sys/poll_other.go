//go:build !linux

package sys

import "errors"

// Polls says that Poll and Take work here.
const Polls = false

// Ready is never reported here.
type Ready struct{}

// Key is no key here.
func (r *Ready) Key() uint64 { return 0 }

// In is false here.
func (r *Ready) In() bool { return false }

// Out is false here.
func (r *Ready) Out() bool { return false }

// Broken is false here.
func (r *Ready) Broken() bool { return false }

// HungUp is false here.
func (r *Ready) HungUp() bool { return false }

// Poll is not offered here.
type Poll struct{}

// NewPoll is not offered here.
func NewPoll(Fault) (*Poll, error) { return nil, errors.ErrUnsupported }

// Add is not offered here.
func (p *Poll) Add(Socket, Interest, uint64) error { return errors.ErrUnsupported }

// Change is not offered here.
func (p *Poll) Change(Socket, Interest, uint64) error { return errors.ErrUnsupported }

// Remove is not offered here.
func (p *Poll) Remove(Socket) error { return errors.ErrUnsupported }

// Now reports nothing here.
func (p *Poll) Now([]Ready) int { return 0 }

// Block reports nothing here.
func (p *Poll) Block([]Ready) int { return 0 }

// Park reports nothing here.
func (p *Poll) Park([]Ready) int { return 0 }

// Unpark does nothing here.
func (p *Poll) Unpark() {}

// Wake is not offered here.
func (p *Poll) Wake() error { return errors.ErrUnsupported }

// Read is not offered here.
func (p *Poll) Read(Socket, []byte) (int, error) { return 0, errors.ErrUnsupported }

// Write is not offered here.
func (p *Poll) Write(Socket, []byte) (int, error) { return 0, errors.ErrUnsupported }

// Close is not offered here.
func (p *Poll) Close() error { return errors.ErrUnsupported }
