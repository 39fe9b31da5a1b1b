package pace

import (
	"slices"
	"testing"
)

func TestBellWakesOnlyASleeper(t *testing.T) {
	var b Bell
	woken := 0
	b.Init(func() { woken++ })
	b.Look(1)
	if b.Sleep(); woken != 0 {
		t.Error("a runner that runs was woken")
	}
	batch, any := b.Collect(nil)
	if !any || !slices.Equal(batch, []uint64{1}) {
		t.Errorf("collected %v, %v", batch, any)
	}
	if !b.Sleep() {
		t.Error("it must not sleep although nothing is listed")
	}
	b.Look(2)
	b.Look(3)
	if woken != 1 {
		t.Errorf("woken %d times by two keys", woken)
	}
	if b.Sleep() {
		t.Error("it may sleep although something is listed")
	}
	if batch, _ = b.Collect(batch); !slices.Equal(batch, []uint64{2, 3}) {
		t.Errorf("collected %v", batch)
	}
	if batch, any = b.Collect(batch); any || len(batch) > 0 {
		t.Errorf("collected %v again", batch)
	}
	b.Sleep()
	if b.Awake(); woken != 1 {
		t.Error("it woke itself")
	}
	b.Sleep()
	if b.Wake(); woken != 2 {
		t.Error("not woken")
	}
	b.Sleep()
	if b.Mute(); woken != 2 {
		t.Error("woken by Mute")
	}
	if b.Look(4); woken != 2 {
		t.Error("a runner that has ended was woken")
	}
}

// Whoever lists a key after Sleep wakes the runner, whatever the order.
func TestBellLosesNobody(t *testing.T) {
	var b Bell
	kick := make(chan struct{}, 1)
	b.Init(func() { kick <- struct{}{} })
	const keys = 20_000
	go func() {
		for i := range keys {
			b.Look(uint64(i))
		}
	}()
	var batch []uint64
	for next := uint64(0); next < keys; {
		var any bool
		if batch, any = b.Collect(batch); !any && b.Sleep() {
			<-kick
		}
		for _, key := range batch {
			if key != next {
				t.Fatalf("key %d, want %d", key, next)
			}
			next++
		}
	}
}
