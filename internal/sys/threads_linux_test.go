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
	threads.Since(true)
	const span = 100 * time.Millisecond
	for begun := time.Now(); time.Since(begun) < span; {
	}
	if own, _ := threads.Since(true); own.Sum() < span*9/10 {
		t.Errorf("at work for %v it ran for %v and waited for %v", span, own.Ran, own.Waited)
	}
	done := make(chan bool)
	go func() {
		for begun := time.Now(); time.Since(begun) < span; {
		}
		close(done)
	}()
	<-done
	if own, others := threads.Since(true); own.Ran > span/2 || others.Sum() < span*9/10 {
		t.Errorf("another thread was at work for %v: it did %v, and this one %v", span, others, own)
	}
	timer, err := NewTimer()
	if err != nil {
		t.Fatal(err)
	}
	if err := timer.WaitFor(span); err != nil {
		t.Error(err)
	}
	if own, others := threads.Since(true); own.Ran+others.Ran > span/2 {
		t.Errorf("asleep they ran for %v and %v", own.Ran, others.Ran)
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
		threads.Since(false)
	}
	b.ReportMetric(float64(len(threads.list)), "threads")
}
