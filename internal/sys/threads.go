package sys

import "time"

// Spell is how long a thread ran, and how long it waited for a processor.
type Spell struct{ Ran, Waited time.Duration }

// Sum is how long it had work.
func (s Spell) Sum() time.Duration { return s.Ran + s.Waited }
