package pool

import "sync"

// Objects lends values of one type, over a sync.Pool: what nobody borrows goes
// away with the second garbage collection. The zero value lends new(T) as it
// was put. Objects must not be copied after first use; all methods are safe for
// concurrent use.
//
// It is for what is dear to make and cheap to reset. A value that must be
// closed does not belong here: it would be dropped silently.
type Objects[T any] struct {
	New   func() *T     // makes one where none is free; nil: new(T)
	Reset func(*T)      // runs in Put: drop references here, not in Get; nil: as it is
	Keep  func(*T) bool // runs in Put before Reset; false: dropped as it is; nil: all are kept

	// Report is told what the check build finds, on a goroutine of the runtime's.
	// nil: nobody is. Other builds do not use it.
	Report func(Finding)

	check objectCheck[T]
	free  sync.Pool
}

// Get lends an object. It need not be put back.
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

// Put takes an object back; the caller must not touch it again. An object whose
// Keep or Reset panics is dropped.
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

// With lends an object to f. When f panics or ends its goroutine the object is
// dropped, whatever state it is in; else it is put back.
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

// fit makes x ready to be lent again, or reports that it is to be dropped.
func fit[T any](x *T, keep func(*T) bool, reset func(*T)) bool {
	if keep != nil && !keep(x) {
		return false
	}
	if reset != nil {
		reset(x)
	}
	return true
}
