package avatar

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hone-go/hone/http1"
	"github.com/hone-go/hone/pool"
	"github.com/hone-go/hone/route"
	"github.com/hone-go/hone/workers"
)

// A Service answers requests for pictures: in its own format at /v1/NAME, and in the formats of
// other services. Fill in the fields, then use it; do not change them afterwards. It is an
// http.Handler for any server; [Server] is one with all limits.
type Service struct {
	Fonts  *Fonts     // required
	Limits Limits     // zero fields: their defaults
	Log    *AccessLog // nil: none

	once     sync.Once
	limits   Limits // with defaults
	mux      route.Mux
	store    *store
	counters counters
	answers  [2][2]*http1.Prepared // by format, and by whether it was negotiated
	visits   pool.Objects[visit]
	epoch    time.Time // start of the clock
}

// prepare initializes the service from its fields.
func (s *Service) prepare() {
	s.once.Do(func() {
		if s.Fonts == nil {
			panic("avatar: Service.Fonts is nil; use OpenFonts")
		}
		s.limits = s.Limits.OrDefaults()
		s.store = newStore(&Renderer{Fonts: s.Fonts}, s.limits)
		s.prepareAnswers()
		s.epoch = time.Now()
		s.visits.Reset = func(v *visit) { *v = visit{} }
		s.mux.NotFound = http.HandlerFunc(s.notFound)
		s.mux.NotAllowed = http.HandlerFunc(s.notAllowed)
		s.mux.HandleFunc("GET /{$}", s.page)
		s.mux.HandleParams("GET /v1/{name}", s.endpoint(s.ownWish))
		s.mux.HandleParams("GET /{name}", s.endpoint(s.seedWish))
		s.mux.HandleParams("GET /avatar/{name}", s.endpoint(s.gravatarWish))
		s.mux.HandleParams("GET /api", s.endpoint(s.uiWish))
		s.mux.HandleParams("GET /api/{options...}", s.endpoint(s.uiWish))
		for version := 5; version <= 9; version++ {
			base := fmt.Sprintf("GET /%d.x/initials/{format}", version)
			s.mux.HandleParams(base, s.endpoint(s.dicebearWish))
			s.mux.HandleParams(base+"/{options...}", s.endpoint(s.dicebearWish))
		}
	})
}

// Close stops the drawing goroutines when they have finished their current pictures. Later
// requests for pictures that are not in the cache get 503.
func (s *Service) Close() {
	s.prepare()
	s.store.crew.Close(context.Background())
}

// visit is one request being answered. It is the ResponseWriter that handlers get, and counts what
// they send.
type visit struct {
	http.ResponseWriter
	status int
	bytes  int
	cache  outcome
	ended  bool // the handler has returned
	attrs  [10]slog.Attr
}

// outcome is where an answer came from.
type outcome uint8

const (
	nowhere     outcome = iota // not a picture
	fromCache                  // sent as cached
	made                       // recoloured or drawn
	notModified                // the client had it
)

// String returns the name in the log.
func (o outcome) String() string { return [...]string{"", "hit", "made", "304"}[o] }

// WriteHeader records the status.
func (v *visit) WriteHeader(status int) {
	if v.status == 0 {
		v.status = status
	}
	v.ResponseWriter.WriteHeader(status)
}

// Write counts the bytes.
func (v *visit) Write(b []byte) (int, error) {
	n, err := v.ResponseWriter.Write(b)
	v.bytes += n
	return n, err
}

// Unwrap is for http.ResponseController.
func (v *visit) Unwrap() http.ResponseWriter { return v.ResponseWriter }

// ServeHTTP answers a request. It reads the clock twice, for both the log and the counters. If the
// picture is in the cache, it allocates nothing more than net/http does for an answer with these
// headers.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.prepare()
	from := time.Since(s.epoch)
	v := s.visits.Get()
	v.ResponseWriter = w
	defer s.leave(v, r, from)
	s.mux.ServeHTTP(v, r)
	v.ended = true
}

// leave counts and logs the answer, also when the handler has panicked; the panic continues.
func (s *Service) leave(v *visit, r *http.Request, from time.Duration) {
	took := time.Since(s.epoch) - from
	switch {
	case !v.ended:
		v.status = http.StatusInternalServerError
	case v.status == 0:
		v.status = http.StatusOK
	}
	s.counters.answered(v.status, took)
	if s.Log != nil {
		s.Log.add(r, s.epoch.Add(from), took, v)
	}
	if v.ended {
		s.visits.Put(v)
	}
}

// endpoint returns a handler for one service's format.
func (s *Service) endpoint(read func(*http.Request, route.Params) (wish, error)) route.ParamsFunc {
	return func(w http.ResponseWriter, r *http.Request, p route.Params) {
		wish, err := read(r, p)
		if err != nil {
			s.fail(w, err)
			return
		}
		s.answer(w.(*visit), r, s.grant(wish), wish.negotiated)
	}
}

// Constant header values. Headers share these slices, and nobody modifies them.
var (
	cacheControl = []string{"public, max-age=86400, stale-while-revalidate=604800"}
	noSniff      = []string{"nosniff"}
	varyAccept   = []string{"Accept"}
	typeProblem  = []string{"application/problem+json"}
	policyPage   = []string{"default-src 'none'; img-src 'self'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"}
	noStore      = []string{"no-store"}
	retrySoon    = []string{"1"}
)

// answer sends a picture, or 304, which needs neither the cache nor a drawing.
func (s *Service) answer(v *visit, r *http.Request, p Picture, negotiated bool) {
	if asked := r.Header["If-None-Match"]; len(asked) > 0 {
		var room [32]byte
		if tag := p.appendTag(room[:0], s.Fonts.fingerprint); matches(asked, tag) {
			h := v.Header()
			h["Cache-Control"] = cacheControl
			if negotiated {
				h["Vary"] = varyAccept
			}
			h["Etag"] = sameTag(asked, tag)
			v.cache = notModified
			v.WriteHeader(http.StatusNotModified)
			return
		}
	}
	e, hit := s.store.find(p)
	if e == nil {
		http1.Leave(v) // frees the event loop while the picture is drawn
		var err error
		if e, err = s.store.draw(p); err != nil {
			if errors.Is(err, workers.ErrPanicked) {
				panic(err) // the server reports it
			}
			s.fail(v, err)
			return
		}
	}
	v.cache = made
	if hit {
		v.cache = fromCache
	}
	v.status, v.bytes = http.StatusOK, len(e.image)
	if r.Method == http.MethodHead {
		v.bytes = 0
	}
	way := 0
	if negotiated {
		way = 1
	}
	s.answers[p.Format][way].Send(v.ResponseWriter, e.image, http1.Field{Key: "Etag", Value: e.tag})
}

// prepareAnswers encodes what the pictures of a format have in common, with and without content
// negotiation.
func (s *Service) prepareAnswers() {
	for format := range s.answers {
		for negotiated := range s.answers[format] {
			h := http.Header{
				"Cache-Control":                cacheControl,
				"X-Content-Type-Options":       noSniff,
				"Cross-Origin-Resource-Policy": {"cross-origin"},
				"Access-Control-Allow-Origin":  {"*"},
				"Content-Type":                 {Format(format).ContentType()},
			}
			if Format(format) == SVG {
				h["Content-Security-Policy"] = []string{"default-src 'none'; style-src 'unsafe-inline'; sandbox"}
			}
			if negotiated == 1 {
				h["Vary"] = varyAccept
			}
			s.answers[format][negotiated] = http1.Prepare(http.StatusOK, h)
		}
	}
}

// matches reports whether one of the client's entity tags is tag.
func matches(asked []string, tag []byte) bool {
	for _, line := range asked {
		for line != "" {
			var one string
			one, line, _ = strings.Cut(line, ",")
			one = strings.TrimPrefix(strings.TrimSpace(one), "W/")
			if one == "*" || one == string(tag) {
				return true
			}
		}
	}
	return false
}

// sameTag returns tag as a header value; it reuses the request's own value if that is equal.
func sameTag(asked []string, tag []byte) []string {
	if len(asked) == 1 && asked[0] == string(tag) {
		return asked
	}
	return []string{string(tag)}
}

// fail answers with a problem document (RFC 9457).
func (s *Service) fail(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	detail := "the picture cannot be drawn; try another name, or another font"
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		status, detail = refused.status, refused.detail
	case errors.Is(err, ErrBusy):
		status, detail = http.StatusServiceUnavailable, ErrBusy.Error()
		w.Header()["Retry-After"] = retrySoon
	}
	writeProblem(w, status, detail)
}

func writeProblem(w http.ResponseWriter, status int, detail string) {
	body, err := json.Marshal(struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{"about:blank", http.StatusText(status), status, strings.TrimPrefix(detail, "avatar: ")})
	if err != nil {
		panic("avatar: " + err.Error()) // three strings and a number always marshal
	}
	h := w.Header()
	h["Content-Type"] = typeProblem
	h["X-Content-Type-Options"] = noSniff
	h["Cache-Control"] = noStore
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	w.Write(body)
}

func (s *Service) notFound(w http.ResponseWriter, _ *http.Request) {
	writeProblem(w, http.StatusNotFound, "there is nothing at this path; ask for /v1/NAME.png, or see /")
}

func (s *Service) notAllowed(w http.ResponseWriter, _ *http.Request) {
	writeProblem(w, http.StatusMethodNotAllowed, "pictures can only be read; use GET or HEAD")
}
