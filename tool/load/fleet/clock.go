package fleet

import "time"

// steady is a clock that no correction moves: the wall's time when it was made, and what
// has passed since.
func steady() func() time.Time {
	base := time.Now()
	return func() time.Time { return base.Add(time.Since(base)) }
}

// reading is how far another clock is ahead of ours, to within error.
type reading struct{ ahead, error time.Duration }

// readingOf is what a round trip says: the other clock was read at some moment of it.
func readingOf(asked, answered, other time.Time) reading {
	half := answered.Sub(asked) / 2
	return reading{other.Sub(asked) - half, half}
}

const (
	roundTrips   = 20                    // to compare clocks before the start
	mostWander   = 10 * time.Millisecond // by which clocks may come apart at once
	mostDrift    = 1000                  // and by one part in so many of the time since
	mostError    = 10 * time.Millisecond // of a reading that the start relies on
	errorPercent = 100                   // or one part in so many of the measured time
)

// wandered is how far the clock has come apart from what it was, beyond what the readings'
// errors explain; 0: not so far that it matters after so much time.
func (r reading) wandered(first reading, after time.Duration) time.Duration {
	apart := (r.ahead - first.ahead).Abs() - r.error - first.error
	if apart <= mostWander+after/mostDrift {
		return 0
	}
	return apart
}
