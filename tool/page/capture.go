package page

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/hone-go/hone/tool/probe"
	"github.com/hone-go/hone/tool/record"
)

// captures holds the captured CPU profiles. One is taken at a time, and the last
// keptCaptures are kept.
type captures struct {
	mu    sync.Mutex
	taken int
	pages map[int]*flames
	// making is held while google/pprof is set up: its settings are globals.
	making sync.Mutex
}

// flames holds the pages of one capture.
type flames struct {
	alone, against http.Handler // against is nil unless the baseline has a profile
}

// captureState is the state of the capture button.
type captureState struct {
	Busy  bool   `json:"busy"`
	Error string `json:"error,omitempty"`
}

// captured is one finished capture.
type captured struct {
	Number int    `json:"number"`
	From   number `json:"from"`
	To     number `json:"to"`
	Href   string `json:"href"`
	Diff   string `json:"diff,omitempty"`
}

// cpuOf returns a run's CPU profile; nil: there is none, or no run.
func cpuOf(run *record.Run) *probe.Profile {
	if run == nil {
		return nil
	}
	profile, err := probe.OfRun(run, probe.CPU)
	if err != nil {
		return nil
	}
	return profile
}

// serveCapture starts a capture unless one is running, and responds at once. An event
// announces its end.
func (p *Page) serveCapture(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state.Capture != nil && p.state.Capture.Busy {
		http.Error(w, "a capture is running; wait for its end", http.StatusConflict)
		return
	}
	if p.ctx.Err() != nil {
		http.Error(w, "the page is closing", http.StatusServiceUnavailable)
		return
	}
	p.state.Capture = &captureState{Busy: true}
	p.tell()
	p.busy.Go(p.capture)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusAccepted)
	json.NewEncoder(w).Encode(map[string]float64{"seconds": p.Profiles.Lasts(probe.CPU).Seconds()}) // an error means that the client has left
}

// capture takes a profile and builds its pages.
func (p *Page) capture() {
	from := p.now()
	taken, err := p.Profiles.Take(p.ctx, probe.CPU)
	to := p.now()
	var made *flames
	if err == nil {
		made, err = p.flames(taken[0])
	}
	defer p.change()()
	p.state.Capture = &captureState{}
	if err != nil {
		p.state.Capture.Error = err.Error()
		return
	}
	c := p.captures.keep(made)
	c.From, c.To = number(from), number(to)
	p.state.Captured = append(p.state.Captured, c)
	p.state.Captured = p.state.Captured[max(0, len(p.state.Captured)-keptCaptures):]
	p.stream.add(encode("mark", mark{number(from), "capture", "CPU profile " + strconv.Itoa(c.Number), c.Href, false}))
}

func (c *captures) keep(made *flames) captured {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pages == nil {
		c.pages = map[int]*flames{}
	}
	c.taken++
	c.pages[c.taken] = made
	delete(c.pages, c.taken-keptCaptures)
	one := captured{Number: c.taken, Href: "pprof/" + strconv.Itoa(c.taken) + "/flamegraph"}
	if made.against != nil {
		one.Diff = "pprof/" + strconv.Itoa(c.taken) + "/diff/flamegraph"
	}
	return one
}

// flames builds the pages of a profile, and of its difference from the baseline's.
func (p *Page) flames(taken record.Artefact) (*flames, error) {
	p.captures.making.Lock()
	defer p.captures.making.Unlock()
	now, err := probe.Parse(taken.Data, probe.CPU)
	if err != nil {
		return nil, err
	}
	made := new(flames)
	made.alone, err = flamesOf(now, nil)
	if before := cpuOf(p.Baseline); err == nil && before != nil {
		made.against, err = flamesOf(now, before)
	}
	return made, err
}

func flamesOf(now, before *probe.Profile) (http.Handler, error) {
	view, err := probe.NewView(now, before)
	if err != nil {
		return nil, err
	}
	return view.Pages()
}

// sandbox deprives google/pprof's pages of their origin: they contain inline scripts,
// which then can request nothing from this server but another such page.
const sandbox = "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; " +
	"img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// servePprof serves the pages of a stored capture.
func (p *Page) servePprof(w http.ResponseWriter, r *http.Request) {
	number, err := strconv.Atoi(r.PathValue("number"))
	p.captures.mu.Lock()
	made := p.captures.pages[number]
	p.captures.mu.Unlock()
	rest, diff := strings.CutPrefix(r.PathValue("rest"), "diff/")
	if err != nil || made == nil || diff && made.against == nil {
		http.Error(w, "this capture is gone; only the last "+strconv.Itoa(keptCaptures)+" are kept", http.StatusNotFound)
		return
	}
	pages := made.alone
	if diff {
		pages = made.against
	}
	asked := r.Clone(r.Context())
	asked.URL.Path = "/" + rest
	asked.Host = "localhost" // the guard has checked the real one
	pages.ServeHTTP(&sandboxed{w, false}, asked)
}

// sandboxed adds the policy to a response.
type sandboxed struct {
	http.ResponseWriter
	set bool
}

// WriteHeader adds the policy.
func (s *sandboxed) WriteHeader(status int) {
	if !s.set {
		s.set = true
		s.Header().Set("Content-Security-Policy", sandbox)
	}
	s.ResponseWriter.WriteHeader(status)
}

// Write adds the policy if WriteHeader was not called.
func (s *sandboxed) Write(b []byte) (int, error) {
	if !s.set {
		s.WriteHeader(http.StatusOK)
	}
	return s.ResponseWriter.Write(b)
}
