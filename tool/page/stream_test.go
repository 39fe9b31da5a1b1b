package page

import (
	"testing"
	"time"
)

// TestPlaces fills the stream, and asks for one more place.
func TestPlaces(t *testing.T) {
	now := time.Now()
	var s stream
	s.begin("run", nil)
	readers := make([]*reader, mostReaders)
	for i := range readers {
		if readers[i] = s.join(now.Add(time.Duration(i))); readers[i] == nil {
			t.Fatalf("no place for reader %d of %d", i+1, mostReaders)
		}
	}
	if s.join(now.Add(placeTime-1)) != nil {
		t.Error("a newcomer took the place of one who has just come")
	}
	now = now.Add(placeTime + mostReaders)
	for i, r := range readers {
		if s.join(now) == nil {
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
		s.leave(r) // late, as a reader that is blocked in a write
	}
	if len(s.readers) != mostReaders {
		t.Errorf("%d readers, want %d", len(s.readers), mostReaders)
	}
	if s.join(now) != nil {
		t.Error("a newcomer took the place of a newcomer")
	}
}
