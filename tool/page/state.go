package page

import (
	"maps"
	"slices"
)

// Status is how things stand.
type Status string

// The statuses. The first four are the page's own: Waiting and Running of a load, Serving
// and Idle of a server whose page shows no load (no group Client).
const (
	Waiting     Status = "waiting" // for the first figures
	Running     Status = "running"
	Serving     Status = "serving" // requests came within the last second
	Idle        Status = "idle"    // none did
	Valid       Status = "valid"
	Invalid     Status = "invalid"
	Failed      Status = "failed"
	Interrupted Status = "interrupted"
	Ended       Status = "ended" // nothing was to be judged
)

// final reports whether a load has ended so.
func (s Status) final() bool {
	return slices.Contains([]Status{Valid, Invalid, Failed, Interrupted, Ended}, s)
}

// Verdict is how a load ended.
type Verdict struct {
	Status Status
	// Reasons are why the figures are not to be believed: sentences.
	Reasons []string
	// Figures take the place of those that the page has counted: rate, p50, p99,
	// p999 in microseconds, errors, cpu in microseconds a request. Absent: as counted.
	Figures map[string]float64
}

// state is what only the newest of counts.
type state struct {
	Status   Status            `json:"status"`
	Phase    string            `json:"phase"`
	Reasons  []string          `json:"reasons"`
	Notes    []string          `json:"notes,omitempty"`
	Figures  map[string]number `json:"figures"`
	Curve    *curves           `json:"curve,omitempty"`
	Lanes    []laneLine        `json:"lanes,omitempty"`
	Changes  []changeLine      `json:"changes,omitempty"`
	Hot      *hotLines         `json:"hot,omitempty"`
	Knee     *Knee             `json:"knee,omitempty"`
	Capture  *captureState     `json:"capture,omitempty"`
	Captured []captured        `json:"captured,omitempty"`
}

// curves are percentile curves: see spread.curve.
type curves struct {
	Latency [][2]number `json:"latency"`
	Service [][2]number `json:"service,omitempty"`
}

// laneLine is what is known of a lane.
type laneLine struct {
	Group    string `json:"group"`
	Name     string `json:"name"`
	Rate     number `json:"rate"`
	P50      number `json:"p50"`
	P99      number `json:"p99"`
	CPU      number `json:"cpu"`
	Done     bool   `json:"done,omitempty"`
	Doubtful bool   `json:"doubtful,omitempty"`
}

// End says how the load ended. Sources are asked no more, until Load goes on: the charts
// stay as they are.
func (p *Page) End(v Verdict) {
	p.ready()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Status, p.state.Phase = v.Status, ""
	p.state.Reasons = append([]string{}, v.Reasons...)
	if p.state.Figures == nil {
		p.state.Figures = map[string]number{}
	}
	maps.Copy(p.state.Figures, numbers(v.Figures))
	if n := len(p.state.Lanes); n > 0 {
		if len(v.Figures) == 0 {
			p.state.Figures = map[string]number{} // the last lane's are not the race's
		}
		p.state.Lanes[n-1].Done = true
	}
	p.stream.add(encode("mark", mark{number(p.now()), "end", string(v.Status), ""}))
	p.tellLocked()
}

// serves makes the status that of a server, where no load is to be shown, and reports
// whether it has changed.
func (p *Page) serves(values map[string]float64) bool {
	rate, known := values["s.rate"]
	if !known || slices.Contains(p.Groups, Client) {
		return false
	}
	status := Idle
	if rate > 0 {
		status = Serving
	}
	changed := status != p.state.Status
	p.state.Status = status
	return changed
}

// tell tells the readers the state.
func (p *Page) tell() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tellLocked()
}

func (p *Page) tellLocked() {
	if p.state.Reasons == nil {
		p.state.Reasons = []string{}
	}
	if p.state.Figures == nil {
		p.state.Figures = map[string]number{}
	}
	p.stream.replace(encode("state", p.state))
}
