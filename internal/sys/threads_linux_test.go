package sys

import (
	"runtime"
	"testing"
	"time"
)

// A thread that works is told from one that sleeps, and nothing stays open.
func TestThreads(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	open := descriptors(t)
	var threads Threads
	threads.Find()
	if !threads.Known() {
		t.Fatal("nothing is known")
	}
	threads.Since()
	const span = 100 * time.Millisecond
	for begun := time.Now(); time.Since(begun) < span; {
	}
	if ran, waited := threads.Since(); ran+waited < span*9/10 {
		t.Errorf("at work for %v it ran for %v and waited for %v", span, ran, waited)
	}
	timer, err := NewTimer()
	if err != nil {
		t.Fatal(err)
	}
	if err := timer.WaitFor(span); err != nil {
		t.Error(err)
	}
	if ran, _ := threads.Since(); ran > span/2 {
		t.Errorf("asleep it ran for %v", ran)
	}
	timer.Close()
	before := len(threads.list)
	threads.Find()
	if got := len(threads.list); got < before || got > before+8 {
		t.Errorf("%d threads, and then %d", before, got)
	}
	threads.Close()
	if now := descriptors(t); now > open || threads.Known() {
		t.Errorf("%d descriptors, before %d", now, open)
	}
}

func BenchmarkThreads(b *testing.B) {
	var threads Threads
	threads.Find()
	defer threads.Close()
	for b.Loop() {
		threads.Since()
	}
	b.ReportMetric(float64(len(threads.list)), "threads")
}
