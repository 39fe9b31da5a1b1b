package avatar

import (
	"runtime"
	"time"
)

// Limits bound what clients can make the service do. Zero fields mean the default in their
// comment; those that refuse requests have counters in [Stats].
type Limits struct {
	NameBytes     int // of a name; 0: 256
	NameGraphemes int // of a name, in grapheme clusters; 0: 64
	Size          int // the largest picture, in pixels; 0: 512, which is also the most

	CacheBytes int64         // of cached pictures, including their overhead; 0: 64 MiB
	Renders    int           // pictures drawn at the same time; 0: half of the processors, at least one
	Waiting    int           // pictures waiting to be drawn; others get 503; 0: 256
	RenderWait time.Duration // until a picture begins to be drawn; then 503; 0: 1 s
}

const (
	smallest = 16  // pixels
	largest  = 512 // pixels; the rasteriser is exact up to here
	usual    = 128 // pixels
)

// OrDefaults returns l with the defaults filled in.
func (l Limits) OrDefaults() Limits {
	fill(&l.NameBytes, 256)
	fill(&l.NameGraphemes, 64)
	fill(&l.Size, largest)
	l.Size = min(max(l.Size, smallest), largest)
	fill(&l.CacheBytes, 64<<20)
	fill(&l.Renders, max(1, runtime.GOMAXPROCS(0)/2))
	fill(&l.Waiting, 256)
	fill(&l.RenderWait, time.Second)
	return l
}

func fill[N int | int64 | time.Duration](field *N, usual N) {
	if *field <= 0 {
		*field = usual
	}
}
