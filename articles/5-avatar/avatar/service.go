package avatar

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/maypok86/otter/v2"
	"github.com/maypok86/otter/v2/stats"

	"github.com/hone-go/hone/http1"
	"github.com/hone-go/hone/pool"
	"github.com/hone-go/hone/route"
	"github.com/hone-go/hone/workers"
)

// A Service answers requests for pictures, in the form of the article and of other services. Fill
// in the fields, then use it; do not change them afterwards. It is an http.Handler for any server.
type Service struct {
	Fonts  *Fonts // required
	Limits Limits // zero fields: their defaults

	once     sync.Once
	limits   Limits // with defaults
	mux      route.Mux
	crew     *workers.Pool // draws
	painters pool.Objects[painter]
	pictures *otter.Cache[Picture, *stored]
	load     otter.Loader[Picture, *stored] // created once, so that a lookup allocates no closure
	answers  [2]*http1.Prepared             // by format

	drawn, notModified, refused, busy, nameTooLong, sizeClamped atomic.Uint64
}

// stored is a picture as it is sent, with its tag.
type stored struct {
	bytes []byte
	tag   string
}

// storedCost is the memory of a cache entry besides its bytes: the entry, its key, and what the
// cache keeps for it.
const storedCost = 640

// ErrBusy means that a picture could not be drawn within Limits.RenderWait, or that Limits.Waiting
// others were already waiting.
var ErrBusy = errors.New("avatar: too many pictures are being drawn; ask again in a moment")

// prepare initializes the service from its fields.
func (s *Service) prepare() {
	s.once.Do(func() {
		if s.Fonts == nil {
			panic("avatar: Service.Fonts is nil; use OpenFonts")
		}
		s.limits = s.Limits.OrDefaults()
		s.crew = workers.New(workers.Options{
			Limit: workers.Fixed(s.limits.Renders), Queue: s.limits.Waiting, Overflow: workers.Reject,
			Panic: func(any, []byte) {}, // the requests that wait for the picture get the error
		})
		s.pictures = otter.Must(&otter.Options[Picture, *stored]{
			MaximumWeight: uint64(s.limits.CacheBytes),
			Weigher:       func(_ Picture, made *stored) uint32 { return uint32(cap(made.bytes)) + storedCost },
			StatsRecorder: stats.NewCounter(),
			Executor:      func(f func()) { f() }, // the cache then starts no goroutines
		})
		s.load = otter.LoaderFunc[Picture, *stored](s.draw)
		for format, contentType := range [...]string{PNG: "image/png", SVG: "image/svg+xml"} {
			s.answers[format] = http1.Prepare(http.StatusOK, http.Header{
				"Cache-Control":                cacheControl,
				"X-Content-Type-Options":       noSniff,
				"Cross-Origin-Resource-Policy": {"cross-origin"},
				"Access-Control-Allow-Origin":  {"*"},
				"Content-Security-Policy":      {"default-src 'none'; sandbox"}, // for SVG
				"Content-Type":                 {contentType},
			})
		}
		s.mux.NotFound = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			s.fail(w, &refusal{http.StatusNotFound, "there is nothing at this path; ask for /avatar/NAME"})
		})
		s.mux.NotAllowed = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			s.fail(w, &refusal{http.StatusMethodNotAllowed, "pictures can only be read; use GET or HEAD"})
		})
		s.mux.HandleParams("GET /avatar/{name}", s.endpoint(s.articleForm))
		s.mux.HandleParams("GET /api", s.endpoint(s.uiForm))
		s.mux.HandleParams("GET /api/{options...}", s.endpoint(s.uiForm))
	})
}

// Close stops the drawing goroutines when they have finished their current pictures. Later
// requests for pictures that are not in the cache get 503.
func (s *Service) Close() {
	s.prepare()
	s.crew.Close(context.Background())
}

// ServeHTTP answers a request.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.prepare()
	s.mux.ServeHTTP(w, r)
}

// endpoint returns a handler for one service's form.
func (s *Service) endpoint(read func(*http.Request, route.Params) (Picture, error)) route.ParamsFunc {
	return func(w http.ResponseWriter, r *http.Request, path route.Params) {
		p, err := read(r, path)
		if err == nil {
			err = s.answer(w, r, p)
		}
		if err != nil {
			s.fail(w, err)
		}
	}
}

// Constant header values. Headers share these slices, and nobody modifies them.
var (
	cacheControl = []string{"public, max-age=86400, stale-while-revalidate=604800"}
	noSniff      = []string{"nosniff"}
)

// answer sends a picture: 304, which needs neither the cache nor a drawing, else the bytes that the
// cache has, else those that are drawn now.
func (s *Service) answer(w http.ResponseWriter, r *http.Request, p Picture) error {
	if asked := r.Header["If-None-Match"]; len(asked) > 0 {
		var room [32]byte
		if tag := p.appendTag(room[:0], s.Fonts.fingerprint); matches(asked, tag) {
			s.notModified.Add(1)
			h := w.Header()
			h["Cache-Control"] = cacheControl
			h["Etag"] = []string{string(tag)}
			w.WriteHeader(http.StatusNotModified)
			return nil
		}
	}
	found, ok := s.pictures.GetIfPresent(p)
	if !ok {
		http1.Leave(w) // frees the event loop while the picture is drawn
		var err error
		// Requests for the same picture wait for one drawing. The first of them may be gone when it
		// is ready, so none of them ends it.
		if found, err = s.pictures.Get(context.Background(), p, s.load); err != nil {
			return err
		}
	}
	s.answers[p.Format].Send(w, found.bytes, http1.Field{Key: "Etag", Value: found.tag})
	return nil
}

// draw makes a picture on the worker pool, unless that is busy for too long.
func (s *Service) draw(_ context.Context, p Picture) (*stored, error) {
	patience, cancel := context.WithTimeout(context.Background(), s.limits.RenderWait)
	defer cancel()
	made, err := workers.Submit(patience, s.crew, func(context.Context) ([]byte, error) {
		s.drawn.Add(1)
		pt := s.painters.Get()
		defer s.painters.Put(pt)
		return pt.draw(s.Fonts, p)
	}).Wait(context.Background())
	if errors.Is(err, workers.ErrFull) || errors.Is(err, workers.ErrClosed) || errors.Is(err, context.DeadlineExceeded) {
		err = ErrBusy
	}
	return &stored{made, string(p.appendTag(nil, s.Fonts.fingerprint))}, err
}

// matches reports whether one of the client's entity tags is tag.
func matches(asked []string, tag []byte) bool {
	for _, line := range asked {
		for one := range strings.SplitSeq(line, ",") {
			one = strings.TrimPrefix(strings.TrimSpace(one), "W/")
			if one == "*" || one == string(tag) {
				return true
			}
		}
	}
	return false
}

// fail answers with a problem document (RFC 9457).
func (s *Service) fail(w http.ResponseWriter, err error) {
	if errors.Is(err, workers.ErrPanicked) {
		panic(err) // the server reports and counts it
	}
	status, detail := http.StatusInternalServerError, "the picture cannot be drawn; try another name, or another font"
	h := w.Header()
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		s.refused.Add(1)
		status, detail = refused.status, refused.detail
	case errors.Is(err, ErrBusy):
		s.busy.Add(1)
		status, detail = http.StatusServiceUnavailable, strings.TrimPrefix(ErrBusy.Error(), "avatar: ")
		h.Set("Retry-After", "1")
	}
	body, err := json.Marshal(struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{"about:blank", http.StatusText(status), status, detail})
	if err != nil {
		panic("avatar: " + err.Error()) // three strings and a number always marshal
	}
	h.Set("Content-Type", "application/problem+json")
	h["X-Content-Type-Options"] = noSniff
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	w.Write(body)
}

// Stats are the counters of a Service since its start, and the content of its cache. Each limit
// that refuses requests has a counter.
type Stats struct {
	Hits, Drawn, Evicted uint64 // pictures: sent from the cache, drawn, and dropped from it
	Pictures             int    // in the cache
	Bytes                int64  // of them, with their overhead
	NotModified          uint64 // answered with 304
	Refused              uint64 // answered with another 4xx
	Busy                 uint64 // answered with 503: not drawn within Limits.RenderWait
	NameTooLong          uint64 // cut because of Limits.NameBytes or NameGraphemes
	SizeClamped          uint64 // because of Limits.Size
}

// Stats returns the current values.
func (s *Service) Stats() Stats {
	s.prepare()
	cache := s.pictures.Stats()
	return Stats{
		Hits: cache.Hits, Drawn: s.drawn.Load(), Evicted: cache.Evictions,
		Pictures: s.pictures.EstimatedSize(), Bytes: int64(s.pictures.WeightedSize()),
		NotModified: s.notModified.Load(), Refused: s.refused.Load(), Busy: s.busy.Load(),
		NameTooLong: s.nameTooLong.Load(), SizeClamped: s.sizeClamped.Load(),
	}
}
