package admission

import (
	"net/netip"
	"sync"
)

// Turns hands out a bounded number of turns at something expensive. Those who wait take turns by
// host, so that one that asks for many delays the others by one each time. Of a host, the newest and the
// one that has waited longest take turns: behind a crowd, most newcomers need not wait until it has passed.
type Turns[T any] struct {
	mu    sync.Mutex
	free  int
	begun []T                // had a turn before; they are served first, because little is left to do
	line  map[netip.Addr][]T // by Host, longest wait first
	hosts []netip.Addr       // that are in line, next first
	last  bool               // the next turn is the newest's
}

// Init sets how many turns there are.
func (t *Turns[T]) Init(n int) { t.free, t.line = n, map[netip.Addr][]T{} }

// Take takes a turn, or puts who in line. It reports whether there was one.
func (t *Turns[T]) Take(host netip.Addr, who T, begun bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch waits, known := t.line[host]; {
	case t.free > 0:
		t.free--
		return true
	case begun:
		t.begun = append(t.begun, who)
	default:
		if !known {
			t.hosts = append(t.hosts, host)
		}
		t.line[host] = append(waits, who)
	}
	return false
}

// Pass ends a turn. If somebody waits, it returns who has it now.
func (t *Turns[T]) Pass() (next T, waits bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case len(t.begun) > 0:
		next, t.begun = t.begun[0], t.begun[1:]
	case len(t.hosts) > 0:
		host := t.hosts[0]
		t.hosts = t.hosts[1:]
		all := t.line[host]
		if n := len(all) - 1; t.last {
			next, all = all[n], all[:n]
		} else {
			next, all = all[0], all[1:]
		}
		t.last = !t.last
		if len(all) > 0 {
			t.line[host] = all
			t.hosts = append(t.hosts, host)
		} else {
			delete(t.line, host)
		}
	default:
		t.begun, t.hosts = nil, nil // free the memory of long lines
		t.free++
		return next, false
	}
	return next, true
}
