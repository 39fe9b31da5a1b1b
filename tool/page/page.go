// Package page is a live page of a load, and the same page as a
// self-contained HTML report.
//
//	p := &page.Page{Title: "hone load 127.0.0.1:7000", Groups: []string{page.Client, page.Host}}
//	defer p.Close()
//	http.Handle("/", p.Handler()) // behind observe.Guard
//	p.Load(page.Second{…})        // once a second
//	p.End(page.Verdict{Status: page.Valid})
//
// Figures arrive through [Page.Load] and from Sources, which are polled once a second;
// they leave as server-sent events. The page keeps the last 15 minutes, so a reader that
// connects late gets them all. [Report] builds the page of stored runs.
//
// Handler does no access control: mount it behind observe.Guard, which does. The page's
// own documents may load nothing but themselves.
package page

import (
	"context"
	"crypto/rand"
	"embed"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/hone-go/hone/tool/figure"
	"github.com/hone-go/hone/tool/record"
)

// The groups of charts, in the page's order.
const (
	Client  = "client"  // measured by the load generator
	Server  = "server"  // reported by the server
	Runtime = "runtime" // the server's Go runtime
	Metrics = "metrics" // chosen ones of the server: Page.Metrics
	Host    = "host"    // the machine
)

// Source is polled once a second for figures under the charts' keys: see Keys. It returns
// within a second, or when ctx ends.
type Source func(ctx context.Context) map[string]float64

// Page is one live page. Set the fields before its first use and do not change them
// afterwards. Its methods are safe for concurrent use.
type Page struct {
	// Title says what the page is about.
	Title string
	// About is listed at the page's foot.
	About []Fact
	// Groups are the charts to show. Zero: Client and Host.
	Groups []string
	// Metrics are the titles of the charts of that group. Their keys in Sources are m.0, m.1…
	Metrics []string
	// Sources add figures to those of Load. Zero: none.
	Sources []Source
	// Baseline is an earlier run to draw under the charts. Zero: none.
	Baseline *record.Run

	once    sync.Once
	began   time.Time
	stream  stream
	earlier *earlier
	handler http.Handler
	stop    context.CancelFunc
	ctx     context.Context
	sampler sync.WaitGroup

	mu      sync.Mutex
	state   state
	segment segmentCount
}

// Fact is a line at the page's foot.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

const (
	mostReaders  = 32
	keptFor      = 15 * time.Minute
	keptBytes    = 16 << 20
	keptSegments = 64
	writeTime    = 5 * time.Second // for a reader to accept the pending data
	placeTime    = 2 * time.Second // before a newcomer may displace a reader
	aliveTime    = 15 * time.Second
)

//go:embed web
var web embed.FS

// ready prepares a Page for its first use.
func (p *Page) ready() {
	p.once.Do(func() {
		p.began = time.Now()
		p.ctx, p.stop = context.WithCancel(context.Background())
		if p.Groups == nil {
			p.Groups = []string{Client, Host}
		}
		p.earlier = earlierOf(p.Baseline)
		p.state.Status = Waiting
		p.stream.begin(rand.Text()[:8], encode("hello", p.hello()))
		p.tell() // nobody else has the page yet
		p.handler = p.routes()
		if len(p.Sources) > 0 {
			p.sampler.Go(p.sample)
		}
	})
}

// hello is the first event of every reader: which parts the page has.
type hello struct {
	Schema   string   `json:"schema"`
	Title    string   `json:"title"`
	About    []Fact   `json:"about"`
	Groups   []string `json:"groups"`
	Metrics  []string `json:"metrics,omitempty"` // charts of the group of that name
	Began    string   `json:"began"`             // RFC 3339
	Earlier  *earlier `json:"earlier,omitempty"`
	Measured bool     `json:"measured,omitempty"` // the time axis holds measured time only
	Short    bool     `json:"short,omitempty"`    // samples have too few points for charts over time
}

func (p *Page) hello() hello {
	return hello{
		Schema: figure.SchemaPage, Title: p.Title, About: p.About, Groups: p.Groups, Metrics: p.Metrics, Earlier: p.earlier,
		Began: p.began.UTC().Format(time.RFC3339),
	}
}

// now returns the seconds since the page began.
func (p *Page) now() float64 { return time.Since(p.began).Seconds() }

// Handler serves the page. All its links are relative: mount it under any path that ends
// in a slash, with http.StripPrefix.
func (p *Page) Handler() http.Handler {
	p.ready()
	return p.handler
}

// Close stops polling and waits for its end. Readers get the pending events and
// a goodbye, which http.Server.Shutdown waits for.
func (p *Page) Close() {
	p.ready()
	p.stop()
	p.sampler.Wait()
	p.stream.close()
}

func (p *Page) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { serveFile(w, r, "index.html") })
	mux.HandleFunc("GET /{name}", func(w http.ResponseWriter, r *http.Request) { serveFile(w, r, r.PathValue("name")) })
	mux.HandleFunc("GET /events", p.serveEvents)
	return mux
}

// policy lets a page load only from its own origin.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func serveFile(w http.ResponseWriter, r *http.Request, name string) {
	kinds := map[string]string{".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
	kind := kinds[path.Ext(name)]
	data, err := web.ReadFile("web/" + name)
	if kind == "" || err != nil || strings.ContainsRune(name, '/') {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", kind+"; charset=utf-8")
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	w.Write(data) // an error means that the client has left
}
