//go:build !linux

package sys

import (
	"errors"
	"net"
)

// Polls reports that Poll serves the system's sockets, and Take works.
const Polls = false

// Ready is one event reported by a Poll.
type Ready struct {
	key                     uint64
	in, out, broken, hungUp bool
}

func newReady(key uint64, in, out, broken, hungUp bool) Ready {
	return Ready{key, in, out, broken, hungUp}
}

// Key returns the key that the socket was added with, or WakeKey.
func (r *Ready) Key() uint64 { return r.key }

// In reports whether a read would not block.
func (r *Ready) In() bool { return r.in }

// Out reports whether the socket is writable.
func (r *Ready) Out() bool { return r.out }

// Broken reports whether the socket has an error.
func (r *Ready) Broken() bool { return r.broken }

// HungUp reports whether both directions are closed.
func (r *Ready) HungUp() bool { return r.hungUp }

// Poll serves Ends alone here.
type Poll struct{ ends *ends }

// NewPoll is not supported here.
func NewPoll(Fault) (*Poll, error) { return nil, errors.ErrUnsupported }

// Add registers s under key.
func (p *Poll) Add(s Socket, want Interest, key uint64) error {
	return p.ends.register(s, want, key, true)
}

// Change changes the interest or the key of s.
func (p *Poll) Change(s Socket, want Interest, key uint64) error {
	return p.ends.register(s, want, key, true)
}

// Remove ends the reports of s.
func (p *Poll) Remove(s Socket) error { return p.ends.register(s, 0, 0, false) }

// Now returns the events that are ready now.
func (p *Poll) Now(ready []Ready) int { return p.ends.now(ready) }

// Block waits until something is ready.
func (p *Poll) Block(ready []Ready) int { return p.ends.wait(ready) }

// Park is Block here.
func (p *Poll) Park(ready []Ready) int { return p.ends.wait(ready) }

// Unpark does nothing here.
func (p *Poll) Unpark() {}

// Wake ends a Block or Park, or makes the next wait return at once.
func (p *Poll) Wake() error {
	p.ends.wake()
	return nil
}

// Read reads what has arrived.
func (p *Poll) Read(s Socket, b []byte) (int, error) { return p.ends.read(s, b) }

// Write writes what s accepts.
func (p *Poll) Write(s Socket, b []byte) (int, error) { return p.ends.write(s, b) }

// Close does nothing here: the Ends stay open.
func (p *Poll) Close() error { return nil }

// NetConn is not supported here.
func NetConn(Socket) (net.Conn, error) { return nil, errors.ErrUnsupported }
