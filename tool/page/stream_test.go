package page

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestPlaces fills the stream, and asks for one place more.
func TestPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s stream
		s.begin("run", nil)
		readers := make([]*reader, mostReaders)
		for i := range readers {
			if readers[i] = s.join(); readers[i] == nil {
				t.Fatalf("no place for reader %d of %d", i+1, mostReaders)
			}
			time.Sleep(time.Millisecond) // of the bubble's own time
		}
		if s.join() != nil {
			t.Error("a newcomer took the place of one who has just come")
		}
		time.Sleep(placeTime)
		for i, r := range readers {
			if s.join() == nil {
				t.Fatalf("newcomer %d finds no place after %v", i+1, placeTime)
			}
			for j, other := range readers {
				lost := false
				select {
				case <-other.lost:
					lost = true
				default:
				}
				if lost != (j <= i) {
					t.Fatalf("after newcomer %d reader %d has lost its place: %v", i+1, j+1, lost)
				}
			}
			s.leave(r) // late, as one who is blocked in a write
		}
		if len(s.readers) != mostReaders {
			t.Errorf("%d readers, want %d", len(s.readers), mostReaders)
		}
		if s.join() != nil {
			t.Error("a newcomer took the place of a newcomer")
		}
	})
}
