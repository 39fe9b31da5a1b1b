// Package traffic describes what clients do: the requests that each sends in turn, the values in
// them, and the checks of their answers. It uses no socket, and a clock only to see that a cookie has
// expired, and knows only the little of HTTP that checks and cookies need.
//
// A [Plan] is what the user writes, a [Script] its compiled form. A [Session] is one client in the
// course of a flow: it appends its requests to buffers, without allocation unless a value grows,
// takes values from answers, and decides what comes next. Everything random is a function of the
// seed, the flow's name and the session's number in its flow, so it is the same on any machine,
// and changing one flow does not change the others.
package traffic

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hone-go/hone/tool/load/offer"
)

// Plan describes what clients do, as the user writes it.
type Plan struct {
	Flows []Flow // at least one
	Data  []Data
	// Web says that requests are HTTP requests. Otherwise they are messages, and a step has only a
	// Body.
	Web bool
	// OneLine says that a line feed ends a message, so that values must not contain one.
	OneLine bool
	// Cookies gives each session a cookie jar.
	Cookies bool
	// Seed is the load's.
	Seed uint64
}

// Flow is one kind of session: its steps, in order. A failed step ends the session.
type Flow struct {
	Name   string  // zero: allowed if the plan has only one flow
	Weight float64 // its share of all sessions, relative to the other weights. Zero: 1
	Steps  []Step
}

// Step is one request of a flow. Path, the headers' values, Body and the values in checks are
// templates, in which {{users.name}} is a column of the data users, {{token}} a value taken by an
// earlier step, {{n}} the number of the session in its flow, from 0, and {{random:1..100}} a
// random whole number.
//
// Values in a Path are percent-encoded. A suffix chooses another form: {{next|raw}} for what is a
// path already, {{name|json}} within quotes of JSON, {{name|url}} within a form, and
// {{login|base64}}.
type Step struct {
	Name     string // in results and goals. Zero: the flow's name, with the step's number if it has several
	Method   string // zero: GET, or POST if there is a Body
	Path     string // zero: the target's own
	Header   []Field
	Body     string
	Statuses []int // that count as success. Zero: the target's own
	Checks   []string
	Takes    []Take
	// Timeout is how long its answer may take, at most as long as the load's. Zero: as long.
	Timeout time.Duration
	// Think and ThinkMost bound the think time, the pause after this step.
	Think, ThinkMost time.Duration
}

// Field is a header, whose Value is a template.
type Field struct{ Name, Value string }

// Take names a value of an answer for later steps:
//
//	header Location      cookie sid      json user.id      regex id=(\d+)      body
type Take struct{ Name, From string }

// Limits of what a session keeps and of a plan's size.
const (
	mostValue   = 8 << 10 // bytes of a taken value
	mostCookies = 32
	mostSteps   = 256 // of all flows together; each costs histograms
	// MostBody is how much of an answer checks and takes see.
	MostBody = 1 << 20
)

// Script is a compiled plan. It is immutable, and so safe for concurrent use.
type Script struct {
	requests []*Request
	flows    []*flow
	tables   []*table
	cookies  bool
	binary   bool
	seed     uint64
	sum      float64 // of all weights
}

// Request is a compiled step.
type Request struct {
	Flow, Name string
	Index      int // among all of the script's
	Method     string
	Path       Template // empty: the target's own
	Header     []FieldTemplate
	Body       Template
	Statuses   []int
	Timeout    time.Duration
	// WantsHead and WantsBody say which parts of an answer the session needs.
	WantsHead, WantsBody bool

	checks    []check
	takes     []take
	think     time.Duration
	thinkSpan uint64
	key       uint64 // separates its random numbers from those of other steps
}

// FieldTemplate is a compiled header.
type FieldTemplate struct {
	Name  string
	Value Template
}

// flow is a compiled Flow.
type flow struct {
	name   string
	weight float64
	key    uint64
	steps  []*Request
	tables []int // tables that its templates use
	taken  []string
	limit  int64 // sessions that the data has rows for; 0: unlimited
}

// Share is a flow's share of all sessions: its Weight divided by Sum, the sum of all weights.
type Share struct {
	Weight, Sum float64
	Steps       int
	Key         uint64 // of the flow's name; 0 for none
	Limit       int64  // sessions that its data has rows for; 0: unlimited
}

// Shares returns the shares of the flows, in order.
func (s *Script) Shares() []Share {
	shares := make([]Share, len(s.flows))
	for i, f := range s.flows {
		shares[i] = Share{f.weight, s.sum, len(f.steps), f.key, f.limit}
	}
	return shares
}

// Requests returns the steps of all flows, in order.
func (s *Script) Requests() []*Request { return s.requests }

// Choose returns the flow of session n in a closed loop.
func (s *Script) Choose(n uint64) int {
	const flows = 0xf70335 // separates it from other uses of the seed
	part := float64(offer.Scramble(s.seed^flows, n)>>11) / (1 << 53) * s.sum
	for i, f := range s.flows {
		if part -= f.weight; part < 0 {
			return i
		}
	}
	return len(s.flows) - 1
}

// IsText reports whether the literal text of all messages is UTF-8.
func (s *Script) IsText() bool { return !s.binary }

// Thinks reports whether any step has a think time.
func (s *Script) Thinks() bool {
	return slices.ContainsFunc(s.requests, func(r *Request) bool { return r.think > 0 || r.thinkSpan > 1 })
}

// Cookies reports whether sessions have a cookie jar.
func (s *Script) Cookies() bool { return s.cookies }

// Contents returns the least and the largest length of a request's body.
func (s *Script) Contents() (least, most int) {
	for i, r := range s.requests {
		if short := r.Body.least(); i == 0 || short < least {
			least = short
		}
		most = max(most, r.Body.Most())
	}
	return least, most
}

// Most returns the largest length of a request, without what the protocol adds.
func (s *Script) Most() int {
	most := 0
	for _, r := range s.requests {
		size := len(r.Method) + r.Path.Most() + r.Body.Most()
		for _, f := range r.Header {
			size += len(f.Name) + f.Value.Most()
		}
		most = max(most, size)
	}
	if s.cookies {
		most += mostCookies * mostValue
	}
	return most
}

// keyOf returns a number for a name; 0 for none.
func keyOf(names ...string) uint64 {
	if names[0] == "" && len(names) == 1 {
		return 0
	}
	hash := fnv.New64a()
	for _, name := range names {
		fmt.Fprintf(hash, "%s\x00", name)
	}
	return hash.Sum64()
}

// Compile reads the data and validates the plan. Its errors say where the fault is and what to do.
func Compile(p Plan) (*Script, error) {
	s := &Script{cookies: p.Cookies, seed: p.Seed}
	if len(p.Flows) == 0 {
		return nil, fmt.Errorf("there is no flow; write one, as in [[flow]] with a [[flow.step]]")
	}
	for _, d := range p.Data {
		t, err := readTable(d)
		if err != nil {
			return nil, fmt.Errorf("data %s: %w", d.Name, err)
		}
		if s.table(d.Name) >= 0 {
			return nil, fmt.Errorf("data %s: there are two of that name; give one another name", d.Name)
		}
		s.tables = append(s.tables, t)
	}
	for i, f := range p.Flows {
		c, err := s.flow(p, i)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", strings.TrimSpace("flow "+f.Name), err)
		}
		s.flows = append(s.flows, c)
		s.sum += c.weight
	}
	if err := s.usedOnce(); err != nil {
		return nil, err
	}
	return s, nil
}

// table returns the index of the data with a name; -1: none.
func (s *Script) table(name string) int {
	return slices.IndexFunc(s.tables, func(t *table) bool { return t.name == name })
}

// usedOnce returns an error if two flows would each use the same rows once.
func (s *Script) usedOnce() error {
	for i, t := range s.tables {
		users := []string{}
		for _, f := range s.flows {
			if slices.Contains(f.tables, i) {
				users = append(users, f.name)
			}
		}
		if t.order == Once && len(users) > 1 {
			return fmt.Errorf("data %s: the flows %s would each use its rows once; give each a file of its own, or use the order %q", t.name, strings.Join(users, " and "), InOrder)
		}
	}
	return nil
}

// checkName refuses names that goals and results cannot have.
func checkName(what, name string) error {
	odd := func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune("<>=!,\"{}|", r) }
	if strings.ContainsFunc(name, odd) || name == "service" {
		return fmt.Errorf("%s cannot have the name %q; use letters, digits, - and _", what, name)
	}
	return nil
}

// flow compiles flow i of the plan.
func (s *Script) flow(p Plan, i int) (*flow, error) {
	f := p.Flows[i]
	f.Weight = cmp.Or(f.Weight, 1)
	switch {
	case f.Name == "" && len(p.Flows) > 1:
		return nil, fmt.Errorf("flow %d has no name; give it one, as in name = \"browse\"", i+1)
	case slices.ContainsFunc(p.Flows[:i], func(o Flow) bool { return o.Name == f.Name }):
		return nil, fmt.Errorf("there are two flows of that name; give one another name")
	case !(f.Weight > 0) || math.IsInf(f.Weight, 0):
		return nil, fmt.Errorf("weight: it cannot be %v; use a number above 0, as in 70", f.Weight)
	case len(f.Steps) == 0:
		return nil, fmt.Errorf("it has no step; write one, as in [[flow.step]]")
	case len(s.requests)+len(f.Steps) > mostSteps:
		return nil, fmt.Errorf("there are more than %d steps; leave some out, since each has histograms of its own", mostSteps)
	}
	if err := checkName("a flow", f.Name); err != nil {
		return nil, err
	}
	c := &flow{name: f.Name, weight: f.Weight, key: keyOf(f.Name)}
	for j := range f.Steps {
		if err := s.step(p, c, f.Steps[j], len(f.Steps)); err != nil {
			return nil, err
		}
	}
	for _, t := range c.tables {
		if s.tables[t].order == Once && (c.limit == 0 || int64(s.tables[t].rows) < c.limit) {
			c.limit = int64(s.tables[t].rows)
		}
	}
	return c, nil
}

// step compiles the next step of a flow; of is the number of its steps.
func (s *Script) step(p Plan, f *flow, st Step, of int) error {
	number := len(f.steps) + 1
	r := &Request{Flow: f.name, Name: st.Name, Index: len(s.requests), Method: st.Method, Statuses: st.Statuses, Timeout: st.Timeout}
	if r.Name == "" {
		if r.Name = cmp.Or(f.name, "request"); of > 1 {
			r.Name = fmt.Sprintf("%s-%d", r.Name, number)
		}
	}
	r.key = keyOf("step", f.name, r.Name)
	err := checkName("a step", r.Name)
	if err == nil && slices.ContainsFunc(s.requests, func(o *Request) bool { return o.Name == r.Name }) {
		err = fmt.Errorf("there are two steps of that name; give one another name")
	}
	if err == nil {
		err = s.fill(p, f, r, st)
	}
	if err != nil {
		return fmt.Errorf("step %s: %w", cmp.Or(st.Name, fmt.Sprint(number)), err)
	}
	s.requests, f.steps = append(s.requests, r), append(f.steps, r)
	return nil
}

// fill compiles the parts of a step.
func (s *Script) fill(p Plan, f *flow, r *Request, st Step) (err error) {
	if !p.Web && (st.Method != "" || st.Path != "" || len(st.Header) > 0 || len(st.Statuses) > 0) {
		return fmt.Errorf("a message has no method, path, header or status; use request for what it carries")
	}
	if r.Method == "" {
		if r.Method = "GET"; st.Body != "" {
			r.Method = "POST"
		}
	}
	in := &compiler{script: s, flow: f, request: r}
	s.binary = s.binary || !utf8.ValidString(st.Body)
	if p.OneLine && strings.Contains(st.Body, "\n") {
		return fmt.Errorf("request: it has a line feed, which ends a message here; write one line, or use another frame")
	}
	if strings.ContainsFunc(outside(st.Path), func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '#' }) {
		return fmt.Errorf("path: %q has blanks, # or letters that are not ASCII; write them as %%20 and the like", st.Path)
	}
	if st.Path != "" && !strings.HasPrefix(st.Path, "/") && !strings.HasPrefix(st.Path, "{{") {
		return fmt.Errorf("path: %q does not begin with /; write it as in path = \"/users\"", st.Path)
	}
	if r.Path, err = in.template("path", st.Path, inPath); err != nil {
		return err
	}
	for _, h := range st.Header {
		if strings.ContainsFunc(h.Value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return fmt.Errorf("header %s: it has a control character; keep it on one line", h.Name)
		}
		value, err := in.template("header "+h.Name, h.Value, inHeader)
		if err != nil {
			return err
		}
		r.Header = append(r.Header, FieldTemplate{h.Name, value})
	}
	place, key := plain, "body"
	if p.OneLine {
		place = inHeader
	}
	if !p.Web {
		key = "request"
	}
	if r.Body, err = in.template(key, st.Body, place); err != nil {
		return err
	}
	if err := in.checks(p, st); err != nil {
		return err
	}
	if err := in.takes(p, st); err != nil {
		return err
	}
	r.WantsHead = r.WantsHead || p.Cookies
	return r.thinks(st)
}

// outside returns a template's text without its values.
func outside(text string) string {
	var words strings.Builder
	for text != "" {
		before, behind, _ := strings.Cut(text, "{{")
		words.WriteString(before)
		_, text, _ = strings.Cut(behind, "}}")
	}
	return words.String()
}

// thinks sets the think time, and checks the time-out.
func (r *Request) thinks(st Step) error {
	st.ThinkMost = cmp.Or(st.ThinkMost, st.Think)
	if st.Timeout < 0 {
		return fmt.Errorf("timeout: it cannot be %v; write it as in 500ms", st.Timeout)
	}
	if st.Think < 0 || st.ThinkMost < st.Think || st.ThinkMost > time.Hour {
		return fmt.Errorf("think: it cannot be from %v to %v; write it as in 500ms or 1s..3s, an hour at most", st.Think, st.ThinkMost)
	}
	r.think, r.thinkSpan = st.Think, uint64(st.ThinkMost-st.Think)+1
	return nil
}
