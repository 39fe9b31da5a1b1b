//go:build poolcheck

package pool

import (
	"bytes"
	"runtime"
	"strings"
	"testing"
	"time"
)

// The test looks for these function names in the stacks.
//
//go:noinline
func borrower(p *Buffers, n int) Buffer { return p.Get(n) }

//go:noinline
func releaser(b Buffer) { b.Release() }

// wantStacks checks that each function is in its stack.
func wantStacks(t *testing.T, text string, functions ...string) {
	t.Helper()
	for _, f := range functions {
		if !strings.Contains(text, "pool."+f) {
			t.Errorf("no %s in:\n%s", f, text)
		}
	}
}

func TestCheckSecondReleaseHasBothStacks(t *testing.T) {
	var p Buffers
	b := borrower(&p, 10)
	releaser(b)
	wantStacks(t, wantPanic(t, "pool: Release of a released or zero Buffer", func() { b.Release() }), "borrower", "releaser")
	wantStacks(t, wantPanic(t, "pool: use of a released or zero Buffer", func() { b.Bytes() }), "borrower", "releaser")
}

func TestCheckPoisons(t *testing.T) {
	var p Buffers
	b := p.Get(1000)
	kept := b.Bytes()
	b.Release()
	if bytes.Count(kept, []byte{poison}) != len(kept) {
		t.Error("a released buffer was not poisoned")
	}
}

// churn pushes everything out of quarantine.
func churn(p *Buffers) {
	for range 2 * quarantine {
		p.Get(10).Release()
	}
}

func TestCheckFindsWritesAfterRelease(t *testing.T) {
	var found []Finding
	p := Buffers{Report: func(f Finding) { found = append(found, f) }}
	b := borrower(&p, 1000)
	kept := b.Bytes()
	releaser(b)
	kept[999]++
	churn(&p)
	if len(found) != 1 || found[0].Problem != Written {
		t.Fatalf("found %v, want one write", found)
	}
	wantStacks(t, found[0].Lent, "borrower")
	wantStacks(t, found[0].Back, "releaser")

	found = nil
	b = borrower(&p, 200)
	kept = b.Bytes()
	b.Write(make([]byte, 1000)) // moves
	kept[0]++
	b.Release()
	churn(&p)
	if len(found) != 1 || found[0].Problem != Written {
		t.Fatalf("found %v, want one write to the moved content", found)
	}

	found = nil
	b = borrower(&p, 200)
	b.Write(make([]byte, 1000))
	kept = b.Bytes()
	releaser(b)
	kept[0]++
	churn(&p)
	if len(found) != 1 {
		t.Fatalf("found %v, want one write to the new memory", found)
	}
	wantStacks(t, found[0].Lent, "borrower")
	wantStacks(t, found[0].Back, "releaser")

	var strict Buffers
	b = strict.Get(10)
	kept = b.Bytes()
	b.Release()
	kept[0]++
	wantPanic(t, "pool: written to after its release", func() { churn(&strict) })
}

// await runs garbage collections until the runtime has reported a finding.
func await(t *testing.T, found <-chan Finding) Finding {
	t.Helper()
	for range 100 {
		runtime.GC()
		select {
		case f := <-found:
			return f
		case <-time.After(50 * time.Millisecond):
		}
	}
	t.Fatal("no finding")
	return Finding{}
}

func TestCheckFindsLeaks(t *testing.T) {
	found := make(chan Finding, 10)
	p := Buffers{Report: func(f Finding) { found <- f }}
	for range 5 {
		b := p.Get(10)
		b.Write(make([]byte, 1000))
		b.Release()
	}
	borrower(&p, 10).Write(make([]byte, 1000))
	f := await(t, found)
	if f.Problem != Leaked || f.Back != "" {
		t.Errorf("found %v", f)
	}
	wantStacks(t, f.String(), "borrower")
	if n := p.Stats().Leaked; n != 1 || len(found) != 0 {
		t.Errorf("%d leaks, and %d more reports", n, len(found))
	}
}

//go:noinline
func objectBorrower(o *Objects[submit]) *submit { return o.Get() }

//go:noinline
func objectReleaser(o *Objects[submit], x *submit) { o.Put(x) }

func TestCheckObjects(t *testing.T) {
	found := make(chan Finding, 10)
	o := Objects[submit]{Report: func(f Finding) { found <- f }}
	x := objectBorrower(&o)
	objectReleaser(&o, x)
	wantStacks(t, wantPanic(t, "pool: Put of an object that was put before", func() { o.Put(x) }), "objectBorrower", "objectReleaser")

	foreign := new(submit)
	o.Put(foreign)
	wantPanic(t, "pool: Put of an object that was put before", func() { o.Put(foreign) })

	func() {
		defer func() { recover() }()
		o.With(func(*submit) { panic("pool: on purpose") }) // dropped by With: not a leak
	}()
	objectBorrower(&o).id = 4
	wantStacks(t, await(t, found).String(), "objectBorrower")
	if len(found) != 0 {
		t.Errorf("unexpected finding: %v", <-found)
	}

	var none Objects[struct{}] // all have the same address
	a, b := none.Get(), none.Get()
	none.Put(a)
	none.Put(b)
}

func TestCheckLocal(t *testing.T) {
	var l Local[submit]
	x := l.Get()
	l.Put(x)
	wantPanic(t, "pool: Put into Local of an object that is free", func() { l.Put(x) })
}
