package observe

import (
	"syscall"
	"time"
)

// Taking reports whether a capture of that name is under way.
func (a *Admin) Taking(name string) bool {
	a.captures.mu.Lock()
	defer a.captures.mu.Unlock()
	return a.captures.taken[name]
}

// SetWriteTime shortens the time for a response; call it before Serve.
func (a *Admin) SetWriteTime(d time.Duration) {
	a.init()
	a.server.WriteTimeout = d
}

// BornPrivate is bornPrivate.
func BornPrivate(network, addr string, c syscall.RawConn) error { return bornPrivate(network, addr, c) }
