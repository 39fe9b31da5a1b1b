package timing

import (
	"testing"
	"time"
)

func TestClockReads(t *testing.T) {
	var k Clock
	k.Init()
	if k.now.Load() == 0 {
		t.Fatal("a clock at 0 cannot store timestamps: 0 means not running")
	}
	before := k.now.Load()
	k.start = k.start.Add(-time.Second)
	if got := k.Read(); got-before < 1000 || got != k.now.Load() {
		t.Errorf("read %d (stored %d) a second after %d", got, k.now.Load(), before)
	}
	k.start = k.start.Add(time.Second)
	if got := k.Read(); got-before < 1000 {
		t.Errorf("went back to %d, %d after it began", got, got-before)
	}
}

// A server without connections does not sweep, so nothing reads its clock: after any idle
// time, the first connection must get the right time.
func TestClockAfterALongSilence(t *testing.T) {
	const day = 24 * time.Hour
	for _, silence := range []time.Duration{time.Hour, 20 * day, 25 * day, 30 * day, 49 * day, 60 * day, 400 * day} {
		var k Clock
		k.Init()
		k.start = k.start.Add(-silence)
		got := k.Read()
		want := Tick(time.Since(k.start).Milliseconds())
		if lag := int32(want - got); lag < -1000 || lag > 1000 {
			t.Errorf("after %v of silence the clock shows %d, want about %d", silence, got, want)
			continue
		}
		k.start = k.start.Add(-10 * time.Second)
		if moved := k.Read() - got; moved < 10_000 || moved > 12_000 {
			t.Errorf("after %v of silence, 10 s are %d ticks", silence, moved)
		}
	}
}

func TestClockWakesTheSweeperOnce(t *testing.T) {
	var k Clock
	k.Init()
	k.wakeUp()
	if len(k.kick) != 0 {
		t.Error("a running sweeper was woken")
	}
	k.parked.Store(true)
	for range 3 {
		k.wakeUp()
	}
	if k.parked.Load() || len(k.kick) != 1 {
		t.Errorf("parked %v and %d kicks after wakeUp, want awake and one", k.parked.Load(), len(k.kick))
	}
}
