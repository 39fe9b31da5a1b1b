package avatar

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/maypok86/otter/v2/stats"
)

// ErrBusy is the error when there was no turn to draw within Limits.RenderWait.
var ErrBusy = errors.New("avatar: too many pictures are being drawn; ask again in a moment")

// stored is an image with the header values that belong to it, made once.
type stored struct {
	image       []byte
	tag, length []string
}

// What an entry takes beside its image: itself, its key, and what the cache
// keeps for it.
const (
	pictureCost = 640
	maskCost    = 384
)

// store has pictures as they are sent. What it does not have it recolours from
// one with other colours, and only then draws; those who want the same at once
// wait for one of them to do it.
type store struct {
	renderer *Renderer
	turns    chan struct{} // one for each that draws
	wait     time.Duration
	pictures *otter.Cache[Picture, *stored]
	masks    *otter.Cache[Picture, []byte]

	// The same every time, so that a lookup makes no closure.
	loadPicture otter.Loader[Picture, *stored]
	loadMask    otter.Loader[Picture, []byte]

	missed, drawn, recoloured atomic.Uint64
}

func newStore(r *Renderer, l Limits) *store {
	s := &store{renderer: r, turns: make(chan struct{}, l.Renders), wait: l.RenderWait}
	atOnce := func(f func()) { f() } // the cache has no goroutines of its own
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

// get is the image of p. A hit costs one lookup and no allocation.
func (s *store) get(p Picture) (e *stored, hit bool, err error) {
	if e, ok := s.pictures.GetIfPresent(p); ok {
		return e, true, nil
	}
	s.missed.Add(1)
	// Whoever asked first may be gone when it is ready; others wait for it too.
	e, err = s.pictures.Get(context.Background(), p, s.loadPicture)
	return e, false, err
}

func (s *store) makePicture(ctx context.Context, p Picture) (*stored, error) {
	mask, ok := s.masks.GetIfPresent(p.mask())
	if ok {
		s.recoloured.Add(1)
	} else {
		var err error
		if mask, err = s.masks.Get(ctx, p.mask(), s.loadMask); err != nil {
			return nil, err
		}
	}
	e := &stored{image: Recolour(make([]byte, 0, len(mask)), mask, p)}
	e.tag = []string{string(p.appendTag(nil, s.renderer.Fonts.fingerprint))}
	e.length = []string{strconv.Itoa(len(e.image))}
	return e, nil
}

func (s *store) makeMask(_ context.Context, p Picture) ([]byte, error) {
	if err := s.turn(); err != nil {
		return nil, err
	}
	defer func() { <-s.turns }()
	s.drawn.Add(1)
	var room [4 << 10]byte
	image, err := s.renderer.Append(room[:0], p)
	if err != nil {
		return nil, err
	}
	return append(make([]byte, 0, len(image)), image...), nil
}

// turn waits until fewer than the limit draw.
func (s *store) turn() error {
	select {
	case s.turns <- struct{}{}:
		return nil
	default:
	}
	patience := time.NewTimer(s.wait)
	defer patience.Stop()
	select {
	case s.turns <- struct{}{}:
		return nil
	case <-patience.C:
		return ErrBusy
	}
}

// held is what a cache holds, and what made room.
func held[V any](c *otter.Cache[Picture, V]) CacheStats {
	return CacheStats{Evicted: c.Stats().Evictions, Entries: c.EstimatedSize(), Bytes: int64(c.WeightedSize())}
}

// counted are the counters of both caches. They are ours: the caches' own count
// what is looked up twice, once before a load and once in it, as two misses.
func (s *store) counted() (pictures, masks CacheStats) {
	pictures, masks = held(s.pictures), held(s.masks)
	pictures.Hits, pictures.Misses = s.pictures.Stats().Hits, s.missed.Load()
	masks.Hits, masks.Misses = s.recoloured.Load(), s.drawn.Load()
	return pictures, masks
}
