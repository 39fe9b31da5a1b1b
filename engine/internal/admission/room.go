package admission

import (
	"math"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/hone-go/hone/engine/internal/timing"
)

// Silent is a FIFO queue of the connections that may not have sent anything yet. Those that have,
// or have ended, are dropped when they are found. The zero value is ready for use.
type Silent[C any] struct {
	mu    sync.Mutex
	line  []C
	drops int // length at which the queue is compacted
}

// fewSilent is a length below which compacting is not worthwhile.
const fewSilent = 1 << 10

// Push adds a connection, unless their number is not limited. Its amortised cost is little more
// than an append's: the queue is compacted only when it has doubled.
func (l *Silent[C]) Push(limit int, c C, isSilent func(C) bool) {
	if limit == math.MaxInt32 {
		return // no limit
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.line) >= max(l.drops, fewSilent) {
		var kept []C
		for _, c := range l.line {
			if isSilent(c) {
				kept = append(kept, c)
			}
		}
		l.line, l.drops = kept, 2*len(kept)
	}
	l.line = append(l.line, c)
}

// Pop removes the oldest.
func (l *Silent[C]) Pop() (c C, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.line) == 0 {
		return c, false
	}
	c, l.line = l.line[0], l.line[1:]
	return c, true
}

// Idlers are the connections that a look at all of them found to give way. There is a look only
// when a newcomer needs a place and no earlier finding is left, so that its cost is shared by as
// many newcomers as it finds places. The zero value is ready for use.
type Idlers[C any] struct {
	mu    sync.Mutex
	found []Idler[C]
	order []uint64             // idle times, above the inverted indices in found; ascending
	first map[netip.Addr]int32 // index of the longest idle one from an address
	next  time.Time            // the next look: unless many were found, looks take a tenth of the time
	used  timing.Tick          // the last time that somebody needed one
}

// Idler is a connection that was idle since Seen.
type Idler[C any] struct {
	Conn C
	Host netip.Addr
	Seen timing.Tick
	same int32 // index of the next one from the host; -1: there is none
}

// Pop removes the one that has been idle for longest, first among those from a host. One of those
// is found again in the order of all. If none is left, it looks for others, unless the caller has
// looked before: look appends all that give way, and fewer than few are not worth their look.
func (l *Idlers[C]) Pop(host netip.Addr, clock *timing.Clock, few int, looked *bool, look func([]Idler[C]) []Idler[C]) (one Idler[C], ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used = clock.Now()
	if len(l.order) == 0 {
		if *looked || !l.look(clock, few, look) {
			return one, false
		}
		*looked = true
	}
	if i, known := l.first[host]; known && i >= 0 {
		l.first[host] = l.found[i].same
		return l.found[i], true
	}
	last := len(l.order) - 1
	one, l.order = l.found[^uint32(l.order[last])], l.order[:last]
	return one, true
}

// look looks for connections that give way, and reports whether there are any. mu held.
func (l *Idlers[C]) look(clock *timing.Clock, few int, look func([]Idler[C]) []Idler[C]) bool {
	began := time.Now()
	if began.Before(l.next) {
		return false
	}
	l.order, l.first = l.order[:0], make(map[netip.Addr]int32, len(l.first))
	now := clock.Read()
	l.found = look(l.found[:0])
	for i := range l.found {
		idle := now - l.found[i].Seen
		if int32(idle) < 0 { // seen since the clock was read
			idle = 0
		}
		l.order = append(l.order, uint64(idle)<<32|uint64(^uint32(i)))
	}
	slices.Sort(l.order)
	for _, key := range l.order {
		i := int32(^uint32(key))
		one := &l.found[i]
		one.same = -1
		if after, known := l.first[one.Host]; known {
			one.same = after
		}
		l.first[one.Host] = i
	}
	if len(l.found) < few {
		l.next = time.Now().Add(10 * time.Since(began))
	}
	return len(l.found) > 0
}

// Forget frees the findings when nobody has needed one for some time.
func (l *Idlers[C]) Forget(now, period timing.Tick) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first != nil && now-l.used > 4*period && now-l.used < timing.Ahead {
		l.found, l.order, l.first = nil, nil, nil
	}
}
