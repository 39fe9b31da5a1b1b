//go:build poolcheck

package pool

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"
	"weak"
)

// checking turns the hooks on. They only add: what is lent goes through the same
// code, and comes back to it later.
const checking = true

// lending is one loan and its two stacks.
type lending struct {
	lent    []uintptr
	back    atomic.Pointer[[]uintptr] // nil: still lent
	cleanup runtime.Cleanup
}

func newLending() *lending { return &lending{lent: callers()} }

// end notes who gave it back, and reports whether that was the first to do so.
func (l *lending) end() bool {
	at := callers()
	return l.back.CompareAndSwap(nil, &at)
}

func (l *lending) finding(p Problem) Finding {
	f := Finding{Problem: p, Lent: text(l.lent)}
	if at := l.back.Load(); at != nil {
		f.Back = text(*at)
	}
	return f
}

func callers() []uintptr {
	at := make([]uintptr, 32)
	return at[:runtime.Callers(2, at)]
}

// text is a stack without the frames of this package's own code.
func text(at []uintptr) string {
	var s strings.Builder
	frames := runtime.CallersFrames(at)
	for more := len(at) > 0; more; {
		var f runtime.Frame
		f, more = frames.Next()
		if own := strings.HasPrefix(f.Function, "github.com/hone-go/hone/pool."); own && !strings.HasSuffix(f.File, "_test.go") {
			continue
		}
		fmt.Fprintf(&s, "\t%s\n\t\t%s:%d\n", f.Function, f.File, f.Line)
	}
	return s.String()
}

// trace is the lending of a Buffer, and the last one of memory.
type trace struct{ *lending }

// history is the end of a panic's text.
func (t trace) history() string {
	if t.lending == nil {
		return " (or never came from Get)"
	}
	f := t.finding("")
	return "\nlent by:\n" + f.Lent + "released by:\n" + f.Back
}

// lent begins the watch over the memory of a new Buffer.
func (t *trace) lent(m *memory) {
	t.lending = newLending()
	t.cleanup = runtime.AddCleanup(m, m.from.leaked, t.lending)
}

// ended is called by Release.
func (t trace) ended(m *memory) {
	t.end()
	t.cleanup.Stop()
	m.trace = t
}

// moved is called when a Buffer has moved, and n has the bytes that it had.
func (t trace) moved(n *memory) {
	old := &lending{lent: t.lending.lent}
	old.end()
	n.trace = trace{old}
}

// leaked runs when a Buffer became unreachable and was not released.
func (p *Buffers) leaked(l *lending) {
	if p.Report != nil {
		p.Report(l.finding(Leaked))
	}
}

// poison is what released memory is filled with.
const poison = 0xDB

// quarantine is how many released buffers are kept back.
const quarantine = 64

type bufferCheck struct {
	mu   sync.Mutex
	held [quarantine]*memory
	next int
}

// swap keeps m back and lets go of what has been kept longest, or nil.
func (q *bufferCheck) swap(m *memory, p *Buffers) *memory {
	m.b = m.b[:cap(m.b)]
	for i := range m.b {
		m.b[i] = poison
	}
	q.mu.Lock()
	m, q.held[q.next] = q.held[q.next], m
	q.next = (q.next + 1) % quarantine
	q.mu.Unlock()
	if m != nil && bytes.Count(m.b, []byte{poison}) != len(m.b) {
		f := m.trace.finding(Written)
		if p.Report == nil {
			panic(f.String())
		}
		p.Report(f)
	}
	return m
}

// objectCheck knows the objects of an Objects without holding them.
type objectCheck[T any] struct {
	mu    sync.Mutex
	known map[weak.Pointer[T]]*lending
}

// watches reports whether objects of T have an address of their own.
func (*objectCheck[T]) watches() bool {
	var x T
	return unsafe.Sizeof(x) > 0
}

// lent notes that x is lent.
func (c *objectCheck[T]) lent(x *T, report func(Finding)) {
	if c.watches() {
		c.set(x, newLending(), report)
	}
}

// back notes that x is put.
func (c *objectCheck[T]) back(x *T, report func(Finding)) {
	if !c.watches() {
		return
	}
	c.mu.Lock()
	l := c.known[weak.Make(x)]
	c.mu.Unlock()
	if l == nil { // not from Get, which is allowed
		l = newLending()
		c.set(x, l, report)
	}
	if !l.end() {
		panic("pool: Put of an object that is not lent: it was put before" + trace{l}.history())
	}
}

// dropped forgives a lending that With did not finish.
func (c *objectCheck[T]) dropped(x *T, finished *bool) {
	if *finished || !c.watches() {
		return
	}
	c.mu.Lock()
	l := c.known[weak.Make(x)]
	c.mu.Unlock()
	l.end()
}

func (c *objectCheck[T]) set(x *T, l *lending, report func(Finding)) {
	key := weak.Make(x)
	c.mu.Lock()
	_, known := c.known[key]
	if c.known == nil {
		c.known = make(map[weak.Pointer[T]]*lending)
	}
	c.known[key] = l
	c.mu.Unlock()
	if !known {
		runtime.AddCleanup(x, func(key weak.Pointer[T]) { c.gone(key, report) }, key)
	}
}

// gone runs when an object is no more.
func (c *objectCheck[T]) gone(key weak.Pointer[T], report func(Finding)) {
	c.mu.Lock()
	l := c.known[key]
	delete(c.known, key)
	c.mu.Unlock()
	if l.back.Load() == nil && report != nil {
		report(l.finding(Leaked))
	}
}

// checkAbsent panics when x is free already.
func checkAbsent[T any](free []*T, x *T) {
	if (*objectCheck[T])(nil).watches() && slices.Contains(free, x) {
		panic("pool: Put of an object into Local that is free already")
	}
}
