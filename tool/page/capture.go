package page

import (
	"encoding/json"
	"net/http"
	"strconv"
	"sync"

	"github.com/hone-go/hone/tool/probe"
)

// captures holds the captured CPU profiles, as files. One is taken at a time, and the last
// keptCaptures are kept.
type captures struct {
	mu    sync.Mutex
	taken int
	files map[int][]byte
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
	Href   string `json:"href"` // the file
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

// capture takes a profile, and shows it against that of the baseline.
func (p *Page) capture() {
	from := p.now()
	taken, err := p.Profiles.Take(p.ctx, probe.CPU)
	to := p.now()
	var hot *hotLines
	if err == nil {
		var now *probe.Profile
		if now, err = probe.Parse(taken[0].Data, probe.CPU); err == nil {
			hot, err = hotOf(now, cpuOf(p.Baseline))
		}
	}
	defer p.change()()
	p.state.Capture = &captureState{}
	if err != nil {
		p.state.Capture.Error = err.Error()
		return
	}
	c := p.captures.keep(taken[0].Data)
	c.From, c.To = number(from), number(to)
	p.state.Hot, p.state.Captured = hot, append(p.state.Captured, c)
	p.state.Captured = p.state.Captured[max(0, len(p.state.Captured)-keptCaptures):]
	p.stream.add(encode("mark", mark{number(from), "capture", "CPU profile " + strconv.Itoa(c.Number), c.Href, false}))
}

func (c *captures) keep(file []byte) captured {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.files == nil {
		c.files = map[int][]byte{}
	}
	c.taken++
	c.files[c.taken] = file
	delete(c.files, c.taken-keptCaptures)
	return captured{Number: c.taken, Href: "profiles/" + strconv.Itoa(c.taken)}
}

// serveProfile serves the file of a capture.
func (p *Page) serveProfile(w http.ResponseWriter, r *http.Request) {
	number, err := strconv.Atoi(r.PathValue("number"))
	p.captures.mu.Lock()
	file := p.captures.files[number]
	p.captures.mu.Unlock()
	if err != nil || file == nil {
		http.Error(w, "this capture is gone; only the last "+strconv.Itoa(keptCaptures)+" are kept", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", `attachment; filename="cpu-`+strconv.Itoa(number)+`.pb.gz"`)
	w.Write(file) // an error means that the client has left
}
