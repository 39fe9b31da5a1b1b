package pool

// localMax is how many objects a Local keeps when it is not told.
const localMax = 32

// Local is the free list of one owner: an event loop, a connection, a worker. It
// is not safe for concurrent use, costs a third of [Objects], and keeps what it
// has until its owner goes: collections do not empty it. The zero value works.
type Local[T any] struct {
	New   func() *T     // makes one where none is free; nil: new(T)
	Reset func(*T)      // runs in Put: drop references here; nil: as it is
	Keep  func(*T) bool // runs in Put before Reset; false: dropped as it is; nil: all are kept
	Max   int           // free objects that are kept at most; 0: 32

	free []*T
}

// Get lends the object that was put last.
func (l *Local[T]) Get() *T {
	last := len(l.free) - 1
	if last < 0 {
		return made(l.New)
	}
	x := l.free[last]
	l.free[last] = nil // what is lent is its borrower's alone
	l.free = l.free[:last]
	return x
}

// Put takes an object back, or drops it when Max are free. The caller must not
// touch it again.
func (l *Local[T]) Put(x *T) {
	if x == nil {
		panic("pool: Put of nil into Local")
	}
	if checking {
		checkAbsent(l.free, x)
	}
	most := l.Max
	if most == 0 {
		most = localMax
	}
	if len(l.free) < most && fit(x, l.Keep, l.Reset) {
		l.free = append(l.free, x)
	}
}
