package load

import (
	"cmp"
	"errors"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/hone-go/hone/tool/load/codec"
	"github.com/hone-go/hone/wire"
)

// longest is the largest value of the histograms, an hour.
const longest = int64(3600e9)

// NewHistogram returns an empty histogram for nanoseconds with three digits. It costs 270 KB.
func NewHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, longest, 3) }

// histogram is one of NewHistogram; nil: there are no such times. Its text form keeps it exactly.
type histogram struct{ *hdrhistogram.Histogram }

func newHistogram() histogram { return histogram{NewHistogram()} }

// record counts n values of ns.
func (h histogram) record(ns, n int64) {
	// RecordValues fails only for values outside of the histogram's range.
	_ = h.RecordValues(min(max(ns, 1), longest), n)
}

// add adds the counts of other, if it has a histogram.
func (h *histogram) add(other histogram) {
	switch {
	case other.Histogram == nil:
		return
	case h.Histogram == nil:
		*h = newHistogram()
	}
	if other.TotalCount() != 0 {
		h.Merge(other.Histogram)
	}
}

func (h histogram) reset() {
	if h.Histogram != nil && h.TotalCount() != 0 {
		h.Reset()
	}
}

// encoded returns the bytes that hdrhistogram.Decode reads.
func (h histogram) encoded() []byte {
	// Encode fails only for unknown versions of the encoding.
	b, _ := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	return b
}

// MarshalText encodes h so that agents can send it.
func (h histogram) MarshalText() ([]byte, error) { return h.encoded(), nil }

var errHistogram = errors.New("load: an agent's result has an incompatible histogram; run the same version of hone everywhere")

// UnmarshalText decodes a histogram that can be merged with ours.
func (h *histogram) UnmarshalText(text []byte) (err error) {
	h.Histogram, err = hdrhistogram.Decode(text)
	if err == nil && (h.LowestTrackableValue() != 1 || h.HighestTrackableValue() != longest || h.SignificantFigures() != 3) {
		err = errHistogram
	}
	return err
}

// counts are those of requests that belong to the measured time: of all, or of one step of the
// plan's Traffic.
type counts struct {
	Latency histogram // answered − intended
	Service histogram `json:",omitzero"` // answered − written, of those that were written; nil in a closed loop
	Errors  [kinds]int64
	Untimed int64 // sent, never answered, and without a response time
	Unsent  int64 // given up before they were sent
	Good    int64 // good answers within the window, to any request
}

func newCounts(open bool) counts {
	c := counts{Latency: newHistogram()}
	if open {
		c.Service = newHistogram()
	}
	return c
}

// record counts answers that came at now.
func (c *counts) record(s *counter, a *answers, now int64) {
	if s.window.has(now) {
		c.Good += a.count - a.bad
	}
	if !s.window.has(a.intended) {
		return
	}
	c.Latency.record(now-a.intended, a.count)
	if c.Service.Histogram != nil {
		c.Service.record(now-a.written, a.count)
	}
	if now-a.intended > s.limit(a.step) {
		c.Errors[Timeout] += a.count - a.bad
	}
}

// fail counts a request without an answer.
func (c *counts) fail(k Kind, intended, now int64) {
	c.Errors[k]++
	if k == Closed {
		c.Untimed++
	} else {
		c.Latency.record(now-intended, 1)
	}
}

func (c *counts) add(other *counts) {
	c.Latency.add(other.Latency)
	c.Service.add(other.Service)
	for k, n := range other.Errors {
		c.Errors[k] += n
	}
	c.Untimed += other.Untimed
	c.Unsent += other.Unsent
	c.Good += other.Good
}

// requests returns how many requests have ended.
func (c *counts) requests() int64 { return c.Latency.TotalCount() + c.Untimed }

func (c *counts) failures() (n int64) {
	for _, k := range c.Errors {
		n += k
	}
	return n
}

// tally holds the counts of a time span or of some connections.
type tally struct {
	counts
	Lost     int64               // of the window's requests, those that were sent and never answered
	Example  *example            `json:",omitempty"` // the server's first failure
	Codes    *[codec.Codes]int64 `json:",omitempty"` // answers to the window's requests by Answer.Code; nil: none had a code
	Answered int64               // answers, at any time
	During   int64               // answers within the window, good or not
}

// example is a failed request.
type example struct {
	Text         string
	Status       int  `json:",omitempty"` // of HTTP; 0: it failed otherwise
	InStep       bool `json:",omitempty"` // the status is that of a step
	Unauthorised bool `json:",omitempty"`
}

func exampleOf(err error) *example {
	e := &example{Text: err.Error(), Unauthorised: errors.Is(err, wire.Unauthorised)}
	if status := codec.Status(0); errors.As(err, &status) {
		e.Status, e.InStep = int(status), err != error(status)
	}
	return e
}

func newTally(open bool) *tally { return &tally{counts: newCounts(open)} }

// add adds the counts of other to t.
func (t *tally) add(other *tally) {
	t.counts.add(&other.counts)
	t.Example = cmp.Or(t.Example, other.Example)
	if other.Codes != nil {
		for code, n := range other.Codes {
			t.count(code, n)
		}
	}
	t.Lost += other.Lost
	t.Answered += other.Answered
	t.During += other.During
}

// take moves the counts of other into t.
func (t *tally) take(other *tally) {
	t.add(other)
	other.reset()
}

func (t *tally) reset() {
	t.Latency.reset()
	t.Service.reset()
	if t.Codes != nil {
		clear(t.Codes[:])
	}
	*t = tally{counts: counts{Latency: t.Latency, Service: t.Service}, Codes: t.Codes}
}

func (t *tally) count(code int, n int64) {
	if n == 0 {
		return
	}
	if t.Codes == nil {
		t.Codes = new([codec.Codes]int64)
	}
	t.Codes[code] += n
}
