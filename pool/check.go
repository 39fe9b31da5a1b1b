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

// checking enables the checks. They only add: buffers take the same code path, and are
// put back later.
const checking = true

// lending is one loan with the stacks of its Get and its Release.
type lending struct {
	lent    []uintptr
	back    atomic.Pointer[[]uintptr] // nil: not released yet
	cleanup runtime.Cleanup
}

func newLending() *lending { return &lending{lent: callers()} }

// end records the stack of a release, and reports whether it was the first.
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

// text formats a stack without the frames of this package.
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

// trace is the current loan of a Buffer, or the last one of a memory block.
type trace struct{ *lending }

// history is what a panic's message ends with: where the loan began and ended.
func (t trace) history() string {
	if t.lending == nil {
		return " (or never came from Get)"
	}
	f := t.finding("")
	return "\nhanded out by:\n" + f.Lent + "put back by:\n" + f.Back
}

// lent starts to watch the memory of a new Buffer.
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

// moved is called when a Buffer has moved; n now has its former bytes.
func (t trace) moved(n *memory) {
	old := &lending{lent: t.lending.lent}
	old.end()
	n.trace = trace{old}
}

// leaked runs when a Buffer became unreachable without a Release.
func (p *Buffers) leaked(l *lending) {
	if p.Report != nil {
		p.Report(l.finding(Leaked))
	}
}

// poison is the byte that released memory is filled with.
const poison = 0xDB

// quarantine is how many released buffers are held back from reuse.
const quarantine = 64

type bufferCheck struct {
	mu   sync.Mutex
	held [quarantine]*memory
	next int
}

// swap quarantines m and returns the memory that was held longest, or nil.
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

// objectCheck tracks the objects of an Objects without keeping them alive.
type objectCheck[T any] struct {
	mu    sync.Mutex
	known map[weak.Pointer[T]]*lending
}

// watches reports whether objects of T have distinct addresses.
func (*objectCheck[T]) watches() bool {
	var x T
	return unsafe.Sizeof(x) > 0
}

// lent records that x is handed out.
func (c *objectCheck[T]) lent(x *T, report func(Finding)) {
	if c.watches() {
		c.set(x, newLending(), report)
	}
}

// back records that x is put back.
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
		panic("pool: Put of an object that was put before" + trace{l}.history())
	}
}

// dropped ends the loan of an object that With dropped.
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

// gone runs when an object has been garbage-collected.
func (c *objectCheck[T]) gone(key weak.Pointer[T], report func(Finding)) {
	c.mu.Lock()
	l := c.known[key]
	delete(c.known, key)
	c.mu.Unlock()
	if l.back.Load() == nil && report != nil {
		report(l.finding(Leaked))
	}
}

// checkAbsent panics when x is already in the free list.
func checkAbsent[T any](free []*T, x *T) {
	if (*objectCheck[T])(nil).watches() && slices.Contains(free, x) {
		panic("pool: Put into Local of an object that is free already")
	}
}
