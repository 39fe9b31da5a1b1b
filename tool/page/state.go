package page

import (
	"slices"

	"github.com/hone-go/hone/tool/knee"
)

// Status is the state of a page.
type Status string

// The statuses. The page itself sets the first two.
const (
	Waiting     Status = "waiting" // for the first figures
	Running     Status = "running"
	Valid       Status = "valid"
	Invalid     Status = "invalid"
	Failed      Status = "failed"
	Interrupted Status = "interrupted"
)

// final reports whether a load has ended with this status.
func (s Status) final() bool {
	return slices.Contains([]Status{Valid, Invalid, Failed, Interrupted}, s)
}

// Verdict is the outcome of a load.
type Verdict struct {
	Status Status
	// Reasons explain why the figures are not reliable: sentences.
	Reasons []string
	// Figures replace those that the page has counted: rate, p50, p99, p999 in
	// microseconds, errors, cpu in microseconds per request. Nil: as counted.
	Figures map[string]float64
}

// state is the part of a page of which only the newest value matters.
type state struct {
	Status   Status            `json:"status"`
	Phase    string            `json:"phase"`
	Reasons  []string          `json:"reasons"`
	Notes    []string          `json:"notes,omitempty"`
	Figures  map[string]number `json:"figures"`
	Curve    *curves           `json:"curve,omitempty"`
	Segments []segmentLine     `json:"segments,omitempty"`
	Changes  []changeLine      `json:"changes,omitempty"`
	Spreads  [][3]string       `json:"spreads,omitempty"`
	Hot      *hotLines         `json:"hot,omitempty"`
	Knee     *knee.Report      `json:"knee,omitempty"`
}

// curves are percentile curves: see spread.curve.
type curves struct {
	Latency [][2]number `json:"latency"`
	Service [][2]number `json:"service,omitempty"`
}

// segmentLine is a segment's row in the table.
type segmentLine struct {
	Group    string `json:"group"`
	Name     string `json:"name"`
	Rate     number `json:"rate"`
	P50      number `json:"p50"`
	P99      number `json:"p99"`
	CPU      number `json:"cpu"`
	Done     bool   `json:"done,omitempty"`
	Doubtful bool   `json:"doubtful,omitempty"`
}

// End shows the outcome of the load. The Sources are not polled again until Load is
// called: the charts stay as they are.
func (p *Page) End(v Verdict) {
	defer p.change()()
	p.state.Status, p.state.Phase = v.Status, ""
	p.state.Reasons = append([]string{}, v.Reasons...)
	if n := len(p.state.Segments); n > 0 {
		p.state.Segments[n-1].Done = true
		p.state.Figures = nil // the last segment's are not those of the race
	}
	if p.state.Knee != nil {
		p.state.Segments = nil // its own table has what counts of the trials
	}
	if v.Figures != nil {
		p.state.Figures = numbers(v.Figures)
	}
	p.stream.add(encode("mark", mark{number(p.now()), "end", string(v.Status), false}))
}

// Search shows the progress of the search for a knee. r replaces what was shown.
func (p *Page) Search(r *knee.Report) {
	defer p.change()()
	p.state.Knee = r
}

// Doing shows what a measurement without a load does now.
func (p *Page) Doing(what string) {
	defer p.change()()
	p.state.Status, p.state.Phase = Running, what
}

// change locks the page; the function that it returns sends the state to the readers, and unlocks.
func (p *Page) change() (done func()) {
	p.ready()
	p.mu.Lock()
	return func() {
		p.tell()
		p.mu.Unlock()
	}
}

// tell sends the state to the readers. p.mu is held.
func (p *Page) tell() {
	if p.state.Reasons == nil {
		p.state.Reasons = []string{}
	}
	if p.state.Figures == nil {
		p.state.Figures = map[string]number{}
	}
	p.stream.replace(encode("state", p.state))
}
