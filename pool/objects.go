package pool

import "sync"

// Objects is a pool of values of one type, on top of sync.Pool: idle objects are freed by
// the second garbage collection. The zero value returns new(T), and objects in the state
// in which they were put. Objects must not be copied after first use; all methods are
// safe for concurrent use.
//
// Use it for values that are expensive to make and cheap to reset. Do not use it for
// values that must be closed: the pool drops them silently.
type Objects[T any] struct {
	New   func() *T     // allocates an object when the pool is empty; nil: new(T)
	Reset func(*T)      // runs in Put: clear references here, not in Get; nil: objects stay as they are
	Keep  func(*T) bool // runs in Put before Reset; false drops the object; nil: all are kept

	// Report is called with what a build with -tags poolcheck finds, on a goroutine of
	// the runtime. Nil: findings are dropped. Other builds ignore it.
	Report func(Finding)

	check objectCheck[T]
	free  sync.Pool
}

// Get returns an object. It need not be put back.
func (o *Objects[T]) Get() *T {
	x, _ := o.free.Get().(*T)
	if x == nil {
		x = made(o.New)
	}
	if checking {
		o.check.lent(x, o.Report)
	}
	return x
}

// Put returns x to the pool; the caller must not touch it again. An object whose Keep or
// Reset panics is dropped.
func (o *Objects[T]) Put(x *T) {
	if x == nil {
		panic("pool: Put of nil into Objects")
	}
	if checking {
		o.check.back(x, o.Report)
	}
	if fit(x, o.Keep, o.Reset) {
		o.free.Put(x)
	}
}

// With calls f with an object and puts the object back. When f panics or ends its
// goroutine, the object is dropped, because its state is unknown.
func (o *Objects[T]) With(f func(*T)) {
	x, finished := o.Get(), false
	if checking {
		defer o.check.dropped(x, &finished)
	}
	f(x)
	finished = true
	o.Put(x)
}

func made[T any](how func() *T) *T {
	if how == nil {
		return new(T)
	}
	x := how()
	if x == nil {
		panic("pool: New returned nil")
	}
	return x
}

// fit runs keep and reset, and reports whether x may be reused.
func fit[T any](x *T, keep func(*T) bool, reset func(*T)) bool {
	if keep != nil && !keep(x) {
		return false
	}
	if reset != nil {
		reset(x)
	}
	return true
}
