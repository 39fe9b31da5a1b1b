package fleet

import "time"

// steady returns a clock that is immune to clock adjustments: the wall time when it was made, plus
// the monotonic time since.
func steady() func() time.Time {
	base := time.Now()
	return func() time.Time { return base.Add(time.Since(base)) }
}

// reading is the offset of another clock, ahead of ours, and the error of that measurement.
type reading struct{ ahead, error time.Duration }

// readingOf computes a reading from a round trip: the other clock was read at some moment within
// it.
func readingOf(asked, answered, other time.Time) reading {
	half := answered.Sub(asked) / 2
	return reading{other.Sub(asked) - half, half}
}

const (
	roundTrips   = 20                    // to measure the clock offset before the start
	mostWander   = 10 * time.Millisecond // drift that is always allowed
	mostDrift    = 1000                  // plus one part in this many of the time since
	mostError    = 10 * time.Millisecond // largest error of a reading for the start
	errorPercent = 100                   // or one part in this many of the measured time
)

// wandered returns by how much the clock has drifted since the first reading, not counting what
// the readings' errors explain; 0 if the drift is within the limit for that time.
func (r reading) wandered(first reading, after time.Duration) time.Duration {
	apart := (r.ahead - first.ahead).Abs() - r.error - first.error
	if apart <= mostWander+after/mostDrift {
		return 0
	}
	return apart
}
