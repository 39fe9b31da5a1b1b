package timing

import "testing"

// The timer of a message runs from its first byte to its last, but not while nobody reads.
func TestFrame(t *testing.T) {
	var k Clock
	k.Init()
	var f Frame
	at := func(now Tick) *Clock {
		k.Set(now)
		return &k
	}
	check := func(what string, began, size, within Tick) {
		t.Helper()
		var m Moments
		if m.SetFrame(&f); m.Frame != began || m.Size != size || m.Within != within || f.Began() != began || f.IsAllowed() != (within != 0) {
			t.Errorf("%s: began %d, size %d, within %d; want %d, %d, %d", what, m.Frame, m.Size, m.Within, began, size, within)
		}
	}
	const first = 1 << 20 // the clock's own time does not reach it
	f.Start(at(first), 100)
	check("a message begins", first, 100, 0)
	f.Start(at(first+10), 200)
	check("more of it arrives", first, 200, 0)
	f.Pace(at(first+20), false)
	check("it is read", first, 200, 0)
	f.Pace(at(first+20), true)
	check("it is not read", 0, 200, 0)
	f.Pace(at(first+25), true)
	check("it is still not read", 0, 200, 0)
	f.Pace(at(first+30), false)
	check("it is read again", first+30, 200, 0)
	f.Allow(5000)
	check("it may take long", first+30, 200, 5000)
	f.Restamp(first, first+40)
	check("another time is corrected", first+30, 200, 5000)
	f.Restamp(first+30, first+40)
	check("its time is corrected", first+40, 200, 5000)
	f.Pause()
	check("it pauses", 0, 200, 5000)
	f.Stop()
	check("it is complete", 0, 200, 0)
	if now := f.Wait(at(first+50), 7, 20); now < first+50 {
		t.Errorf("a wait begins at %d, before now", now)
	}
	check("a visit waits that has waited before", first+30, 7, 0)
	f.Wait(&k, 7, f.Began()+20)
	if f.Began() != 1 {
		t.Errorf("a wait of longer than the clock has run begins at %d, want 1: 0 is no time", f.Began())
	}
}
