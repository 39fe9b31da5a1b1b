package avatar

import (
	"os"
	"runtime"
	"runtime/debug"
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

	Connections int           // open at the same time; others are closed at once; 0: 10 000
	Streams     int           // per HTTP/2 connection; 0: 100
	HeaderBytes int           // of a request's head, to which net/http adds 4 KiB; 0: 8 KiB
	HeaderTime  time.Duration // for a request's head; 0: 5 s
	ReadTime    time.Duration // for a whole request; 0: 10 s
	WriteTime   time.Duration // for an answer without progress, or in all where net/http writes it; 0: 10 s
	IdleTime    time.Duration // between two requests; 0: 60 s
}

// Memory returns the memory that a process with these limits may use: twice CacheBytes, and 64
// MiB.
func (l Limits) Memory() int64 { return 2*l.OrDefaults().CacheBytes + 64<<20 }

// UseMemory configures Go's garbage collector, for the whole process, to use the memory that
// Memory allows: it runs when that is nearly full, or when the heap has grown to five times the
// live data. Fewer GC cycles mean fewer times at which requests wait for a processor. UseMemory
// changes nothing if GOGC or GOMEMLIMIT is set.
func (l Limits) UseMemory() {
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetGCPercent(400)
		debug.SetMemoryLimit(l.Memory() - 32<<20) // leaves room for the program itself and for kernel memory
	}
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
	fill(&l.Connections, 10_000)
	fill(&l.Streams, 100)
	fill(&l.HeaderBytes, 8<<10)
	fill(&l.HeaderTime, 5*time.Second)
	fill(&l.ReadTime, 10*time.Second)
	fill(&l.WriteTime, 10*time.Second)
	fill(&l.IdleTime, 60*time.Second)
	return l
}

func fill[N int | int64 | time.Duration](field *N, usual N) {
	if *field <= 0 {
		*field = usual
	}
}
