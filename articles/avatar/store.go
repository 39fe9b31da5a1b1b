package avatar

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/maypok86/otter/v2/stats"

	"github.com/hone-go/hone/workers"
)

// ErrBusy means that a picture could not be drawn within Limits.RenderWait, or that Limits.Waiting
// others were already waiting.
var ErrBusy = errors.New("avatar: too many pictures are being drawn; ask again in a moment")

// stored is an image with its tag.
type stored struct {
	image []byte
	tag   string
}

// Memory overhead of a cache entry: the entry itself, its key, and what the cache keeps for it.
const (
	pictureCost = 640
	maskCost    = 384
)

// store caches pictures as they are sent. A missing picture is recoloured from one with other
// colours if possible, else drawn; concurrent requests for the same picture wait for one drawing
// (single flight).
type store struct {
	renderer *Renderer
	crew     *workers.Pool // worker pool for drawing
	wait     time.Duration
	pictures *otter.Cache[Picture, *stored]
	masks    *otter.Cache[Picture, []byte]

	// Created once, so that a lookup allocates no closure.
	loadPicture otter.Loader[Picture, *stored]
	loadMask    otter.Loader[Picture, []byte]

	missed, drawn, recoloured atomic.Uint64
}

func newStore(r *Renderer, l Limits) *store {
	s := &store{renderer: r, wait: l.RenderWait}
	s.crew = workers.New(workers.Options{
		Limit: workers.Fixed(l.Renders), Queue: l.Waiting, Overflow: workers.Reject,
		Panic: func(any, []byte) {}, // the requests that wait for the picture get the error
	})
	atOnce := func(f func()) { f() } // the cache then starts no goroutines
	s.masks = otter.Must(&otter.Options[Picture, []byte]{
		MaximumWeight: uint64(max(l.CacheBytes/4, 1)),
		Weigher:       func(_ Picture, image []byte) uint32 { return uint32(cap(image)) + maskCost },
		StatsRecorder: stats.NewCounter(),
		Executor:      atOnce,
	})
	s.pictures = otter.Must(&otter.Options[Picture, *stored]{
		MaximumWeight: uint64(max(l.CacheBytes-l.CacheBytes/4, 1)),
		Weigher:       func(_ Picture, e *stored) uint32 { return uint32(cap(e.image)) + pictureCost },
		StatsRecorder: stats.NewCounter(),
		Executor:      atOnce,
	})
	s.loadPicture = otter.LoaderFunc[Picture, *stored](s.makePicture)
	s.loadMask = otter.LoaderFunc[Picture, []byte](s.makeMask)
	return s
}

// find returns the image of p if it need not be drawn. hit means that it is cached exactly as
// sent, which costs one lookup and no allocation; nil means that it must be drawn.
func (s *store) find(p Picture) (e *stored, hit bool) {
	if e, ok := s.pictures.GetIfPresent(p); ok {
		return e, true
	}
	s.missed.Add(1)
	if mask, ok := s.masks.GetIfPresent(p.mask()); ok {
		s.recoloured.Add(1)
		e = s.recolour(mask, p)
		s.pictures.Set(p, e)
	}
	return e, false
}

// draw makes the image of p, which find has not found. It waits for the worker pool.
func (s *store) draw(p Picture) (*stored, error) {
	// The first requester may be gone when it is ready; others wait for it, too.
	return s.pictures.Get(context.Background(), p, s.loadPicture)
}

func (s *store) makePicture(ctx context.Context, p Picture) (*stored, error) {
	mask, err := s.masks.Get(ctx, p.mask(), s.loadMask)
	if err != nil {
		return nil, err
	}
	return s.recolour(mask, p), nil
}

func (s *store) recolour(mask []byte, p Picture) *stored {
	var room [32]byte
	return &stored{
		image: Recolour(make([]byte, 0, len(mask)), mask, p),
		tag:   string(p.appendTag(room[:0], s.renderer.Fonts.fingerprint)),
	}
}

// makeMask draws on the worker pool. If drawing has not begun in time, it is cancelled.
func (s *store) makeMask(_ context.Context, p Picture) ([]byte, error) {
	patience, cancel := context.WithTimeout(context.Background(), s.wait)
	defer cancel()
	mask, err := workers.Submit(patience, s.crew, func(context.Context) ([]byte, error) {
		s.drawn.Add(1)
		return s.renderer.mask(p, (&turnTaker{time.Now()}).pause)
	}).Wait(context.Background())
	if errors.Is(err, workers.ErrFull) || errors.Is(err, workers.ErrClosed) || errors.Is(err, context.DeadlineExceeded) {
		err = ErrBusy
	}
	return mask, err
}

// turnTaker yields the processor, but not too often.
type turnTaker struct{ last time.Time }

// slice is the shortest time for which a picture is drawn before yielding.
const slice = 10 * time.Microsecond

func (t *turnTaker) pause() {
	if time.Since(t.last) >= slice {
		runtime.Gosched()
		t.last = time.Now()
	}
}

// held returns a cache's size and evictions.
func held[V any](c *otter.Cache[Picture, V]) CacheStats {
	return CacheStats{Evicted: c.Stats().Evictions, Entries: c.EstimatedSize(), Bytes: int64(c.WeightedSize())}
}

// counted returns the counters of both caches. The service counts itself, because the caches count
// one miss twice: once before a load and once in it.
func (s *store) counted() (pictures, masks CacheStats) {
	pictures, masks = held(s.pictures), held(s.masks)
	pictures.Hits, pictures.Misses = s.pictures.Stats().Hits, s.missed.Load()
	masks.Hits, masks.Misses = s.recoloured.Load(), s.drawn.Load()
	return pictures, masks
}
