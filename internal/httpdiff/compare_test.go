package httpdiff

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
)

// difference is a stream whose results differ.
type difference struct {
	*stream
	engine     engine.Engine
	want, have outcome // of net/http, and of http1
}

// verdict is the result of a comparison: one of these, or the name of an explanation.
type verdict string

const (
	equal  verdict = "equal"
	chance verdict = "equal in a repetition"
	once   verdict = "different once, on http1 alone"
	busy   verdict = "different while the machine was busy"
	differ verdict = "different"
)

// contest compares servers, which are started when a stream needs them.
type contest struct {
	engines []engine.Engine
	twist   func(http.Handler) http.Handler // changes the handlers of http1; nil: as they are
	stop    chan struct{}
	late    atomic.Int64 // when a timer was late last, in ns since 1970

	mu      sync.Mutex
	servers map[string]*server
}

func newContest(t *testing.T) *contest {
	c := &contest{servers: make(map[string]*server), stop: make(chan struct{})}
	go c.watch()
	for _, e := range engine.All() {
		c.engines = append(c.engines, e)
		if e == engine.Events(engine.Auto) {
			c.engines = append(c.engines, engine.Events(engine.Inline), engine.Events(engine.Offload))
		}
	}
	t.Cleanup(func() { c.close(t) })
	return c
}

// watch notes when the machine is too busy for timeouts: http1 extends them if its sweeper is late.
func (c *contest) watch() {
	const period = beat / 8
	for {
		last := time.Now()
		select {
		case <-c.stop:
			return
		case <-time.After(period):
		}
		if time.Since(last) > period+period/5 {
			c.late.Store(time.Now().UnixNano())
		}
	}
}

func (c *contest) busySince(t time.Time) bool { return c.late.Load() > t.UnixNano() }

// close checks that nothing is left of the streams, and stops the servers.
func (c *contest) close(t *testing.T) {
	c.stop <- struct{}{}
	for key, sv := range c.servers {
		for end := time.Now().Add(patience); sv.ours != nil; <-time.After(time.Millisecond) {
			st := sv.ours.Stats()
			left := fmt.Sprint(st.Open, st.OpenLoans, st.OutputMemory, st.InputMemory, st.Helpers)
			if left == "0 0 0 0 0" {
				break
			}
			if time.Now().After(end) {
				t.Errorf("%s after all streams: connections, loans, bytes of output and of input, and helpers are %s", key, left)
				break
			}
		}
		sv.close()
	}
}

// play plays s on http1 with an engine, or on net/http without one.
func (c *contest) play(e *engine.Engine, s *stream) outcome {
	if s.stops() {
		sv := start(e, s, c.twist)
		defer sv.close()
		return sv.play(s)
	}
	key := fmt.Sprint("net/http ", s.ReadHeaderTimeout, s.ReadTimeout)
	if e != nil {
		key = strings.Replace(key, "net/http", e.Name(), 1)
	}
	c.mu.Lock()
	sv := c.servers[key]
	if sv == nil {
		sv = start(e, s, c.twist)
		c.servers[key] = sv
	}
	c.mu.Unlock()
	return sv.play(s)
}

// both plays s on both servers n times, at once if it waits.
func (c *contest) both(e engine.Engine, s *stream, n int) (want, have []outcome) {
	want, have = make([]outcome, n), make([]outcome, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { want[i] = c.play(nil, s) })
		all.Go(func() { have[i] = c.play(&e, s) })
		if !s.timed() {
			all.Wait()
		}
	}
	all.Wait()
	return want, have
}

// repetitions is how often a difference must show before it is one.
const repetitions = 5

// compare plays s on both servers, again if the results differ.
func (c *contest) compare(e engine.Engine, s *stream) (verdict, *difference) {
	began := time.Now()
	want, have := c.both(e, s, 1)
	if reflect.DeepEqual(want, have) {
		return equal, nil
	}
	d := &difference{s, e, want[0], have[0]}
	inTheEnd := slices.Equal(d.want.Ran, d.have.Ran) && d.want.texts() == d.have.texts() // which is often chance
	if v := d.explanation(); v != differ && !inTheEnd {
		return v, d
	}
	moreWant, moreHave := c.both(e, s, repetitions)
	if agree(append(want, moreWant...), append(have, moreHave...)) {
		same := func(o outcome) bool { return reflect.DeepEqual(o, have[0]) }
		if c.busySince(began) || d.explanation() != differ || slices.ContainsFunc(slices.Concat(moreWant, moreHave), same) {
			return chance, d
		}
		return once, d
	}
	for i := range moreWant { // what was chance at first may be explained
		d = &difference{s, e, moreWant[i], moreHave[i]}
		if v := d.explanation(); v != differ {
			return v, d
		}
	}
	if s.timed() && c.busySince(began) {
		return busy, d
	}
	return differ, d
}

// explanation is the entry of the tables that explains d.
func (d *difference) explanation() verdict {
	for _, x := range slices.Concat(documented, untilRepaired) {
		if x.is(d) {
			return verdict(x.name)
		}
	}
	return differ
}

// parts are what repetitions compare one by one.
func (o *outcome) parts() []string {
	return []string{strings.Join(o.Ran, between), strings.Join(o.Answers, between), o.Rest, o.End, o.Down}
}

const between = "\n\n" // between two handlers or answers

var partNames = []string{"handlers", "answers", "after them", "end", "Shutdown"}

// agree reports whether repetitions have shown the same result on both servers, or that each part
// in which they differ varies on both.
func agree(want, have []outcome) bool {
	for part := range partNames {
		distinct := func(all []outcome) (texts []string) {
			for _, o := range all {
				texts = append(texts, o.parts()[part])
			}
			slices.Sort(texts)
			return slices.Compact(texts)
		}
		w, h := distinct(want), distinct(have)
		common := slices.ContainsFunc(w, func(text string) bool { return slices.Contains(h, text) })
		if !common && (len(w) == 1 || len(h) == 1) {
			return false
		}
	}
	return true
}

// String shows where the results differ, and the stream.
func (d *difference) String() string {
	var b strings.Builder
	want, have := d.want.parts(), d.have.parts()
	for i, name := range partNames {
		w, h := strings.Split(want[i], between), strings.Split(have[i], between)
		for len(w) > 1 && len(h) > 1 && w[0] == h[0] {
			w, h = w[1:], h[1:]
		}
		if want[i] != have[i] {
			fmt.Fprintf(&b, "%s on net/http:\n%s\n%s on %s:\n%s\n", name, strings.Join(w, "\n"), name, d.engine.Name(), strings.Join(h, "\n"))
		}
	}
	return b.String() + d.literal()
}

const (
	shrinkFor = 20 * time.Second
	atOnce    = 12
)

// shrink returns a smaller stream that differs as well. It tries streams that are one step smaller,
// some at once, and goes on with the first that differs.
func (c *contest) shrink(d *difference) *difference {
	end := time.Now().Add(shrinkFor)
	rest := d.smaller()
	for len(rest) > 0 && time.Now().Before(end) {
		some := rest[:min(atOnce, len(rest))]
		rest = rest[len(some):]
		found := make([]*difference, len(some))
		var all sync.WaitGroup
		for i, s := range some {
			all.Go(func() {
				if v, still := c.compare(d.engine, s); v == differ {
					found[i] = still
				}
			})
		}
		all.Wait()
		if i := slices.IndexFunc(found, func(d *difference) bool { return d != nil }); i >= 0 {
			d = found[i]
			rest = d.smaller()
		}
	}
	return d
}

// smaller lists streams with less in them, the smallest first.
func (s *stream) smaller() (all []*stream) {
	try := func(change func(c *stream)) {
		c := s.clone()
		change(c)
		if !reflect.DeepEqual(c, s) {
			c.follow(s)
			all = append(all, c)
		}
	}
	try(func(c *stream) { c.Waits, c.Half = false, true })
	for i := range s.Requests {
		try(func(c *stream) { c.Requests = slices.Delete(c.Requests, i, i+1) })
	}
	for i, q := range s.Requests {
		for _, n := range []int{0, 1, 2, len(q.Body) / 2} {
			try(func(c *stream) { c.Requests[i].shorten(min(n, len(q.Body))) })
		}
		half := len(q.Fields) / 2
		try(func(c *stream) { c.Requests[i].Fields = c.Requests[i].Fields[:half] })
		try(func(c *stream) { c.Requests[i].Fields = c.Requests[i].Fields[half:] })
	}
	try(func(c *stream) { c.Cuts, c.Pace = nil, 0 })
	try(func(c *stream) { c.Cuts = c.Cuts[:len(c.Cuts)/2] })
	try(func(c *stream) { c.Pace, c.Late = 0, 0 })
	for i := range s.Pauses {
		try(func(c *stream) { c.Pauses = slices.Delete(c.Pauses, i, i+1) })
	}
	for i, q := range s.Requests {
		try(func(c *stream) { c.Requests[i].Body = q.Body[:len(q.Body)/2] })
		try(func(c *stream) { c.Requests[i].Body = fill(min(len(q.Body), mostFill)) })
		try(func(c *stream) { c.Requests[i].Line = "GET /" + q.Line[strings.Index(q.Line, "/")+1:] })
		for j, f := range q.Fields {
			try(func(c *stream) { c.Requests[i].Fields = slices.Delete(c.Requests[i].Fields, j, j+1) })
			try(func(c *stream) { c.Requests[i].Fields[j] = strings.Replace(f, fill(len(f)/2), "", 1) })
		}
	}
	return all
}

// shorten makes the body n bytes long, and its length the same. A chunked body becomes one chunk.
func (q *request) shorten(n int) {
	length := fmt.Sprintf("Content-Length: %d\r\n", len(q.Body))
	if i := slices.Index(q.Fields, length); i >= 0 {
		q.Body = q.Body[:n]
		q.Fields[i] = fmt.Sprintf("Content-Length: %d\r\n", n)
	} else if slices.Contains(q.Fields, "Transfer-Encoding: chunked\r\n") && n < 2 {
		q.Body = []string{"0\r\n\r\n", "1\r\nx\r\n0\r\n\r\n"}[n]
	}
}

// follow moves cuts and pauses of a changed stream: as many bytes follow them as before.
func (s *stream) follow(before *stream) {
	if len(s.Cuts)+len(s.Pauses) == 0 {
		return
	}
	was, is := before.bytes(), s.bytes()
	move := func(at int) int {
		if strings.HasPrefix(is, was[:at]) {
			return at
		}
		return min(max(0, at+len(is)-len(was)), len(is))
	}
	for i := range s.Cuts {
		s.Cuts[i] = move(s.Cuts[i])
	}
	for i := range s.Pauses {
		s.Pauses[i].At = move(s.Pauses[i].At)
	}
}
