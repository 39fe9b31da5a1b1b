package pool

// localMax is the default of Local.Max.
const localMax = 32

// Local is a free list with one owner: an event loop, a connection, a worker. It is not
// safe for concurrent use, costs a third of what [Objects] costs, and garbage collections
// do not empty it. The zero value works.
type Local[T any] struct {
	New   func() *T     // allocates an object when the list is empty; nil: new(T)
	Reset func(*T)      // runs in Put: clear references here; nil: objects stay as they are
	Keep  func(*T) bool // runs in Put before Reset; false drops the object; nil: all are kept
	Max   int           // maximum length of the free list; 0: 32. Negative: no limit

	free []*T
}

// Get returns the object that was put last, or a new one.
func (l *Local[T]) Get() *T {
	last := len(l.free) - 1
	if last < 0 {
		return made(l.New)
	}
	x := l.free[last]
	l.free[last] = nil // do not keep an object alive that is handed out
	l.free = l.free[:last]
	return x
}

// Put puts x on the free list, or drops it when the list has Max objects. The caller must
// not touch it again.
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
	if uint(len(l.free)) < uint(most) && fit(x, l.Keep, l.Reset) {
		l.free = append(l.free, x)
	}
}
