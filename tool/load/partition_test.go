package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/hone-go/hone/tool/load/codec"
	"github.com/hone-go/hone/tool/load/offer"
	"github.com/hone-go/hone/tool/load/traffic"
)

// partsOf are the numbers of parts that the tests split into.
var partsOf = []int{1, 2, 3, 7}

// momentsOf returns the moments of all requests of a part, by their number, from its pacers.
func momentsOf(t *testing.T, p Plan) map[int64]time.Duration {
	t.Helper()
	p = must[Plan](t)(p.complete())
	r := newRun(p)
	r.window.till = int64(p.For)
	for i := range r.conns {
		r.conns[i] = newConn(r, i, swallow{})
	}
	all := make(map[int64]time.Duration)
	const pacers = 2
	for i := range min(pacers, len(r.conns)) {
		pacer := must[*pacer](t)(newPacer(r, i, min(pacers, len(r.conns))))
		defer pacer.alarm.timer.Close()
		for m := int64(0); ; m++ {
			a := pacer.arrival(m)
			if a.moment >= r.window.till {
				break
			}
			own := int64(len(pacer.conns))
			n := m/own*int64(p.Conns) + int64(pacer.conns[m%own].number)
			if _, twice := all[n]; twice {
				t.Fatalf("request %d twice", n)
			}
			all[n] = time.Duration(a.moment)
		}
	}
	return all
}

// Parts together have the requests of the whole, at the same moments to the nanosecond.
func TestPartsHaveTheMomentsOfTheWhole(t *testing.T) {
	var ramp offer.Schedule
	if err := ramp.UnmarshalText([]byte("ramp:1000..9000")); err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]Plan{
		"constant": {Rate: 5000}, "poisson": {Rate: 5000, Arrivals: Poisson, Seed: 7},
		"ramp": {Schedule: ramp, Arrivals: Poisson}, "count": {Rate: 5000, Requests: 777},
	} {
		p.Target, p.Conns, p.For, p.Warmup = codec.Frames{}, 11, time.Second, -1
		whole := momentsOf(t, p)
		if want := 777; name == "count" && len(whole) != want || len(whole) < want {
			t.Fatalf("%s: %d requests", name, len(whole))
		}
		for _, k := range partsOf {
			sum := make(map[int64]time.Duration)
			for i := range k {
				p.Partition = Partition{Index: i, Of: k}
				for n, at := range momentsOf(t, p) {
					if _, twice := sum[n]; twice {
						t.Fatalf("%s: %d parts have request %d twice", name, k, n)
					}
					sum[n] = at
				}
			}
			if !maps.Equal(sum, whole) {
				t.Errorf("%s: %d parts have other requests than the whole: %d of %d", name, k, len(sum), len(whole))
			}
		}
	}
}

// recording records what is sent: the size of each request by its number, and when.
type recording struct {
	codec.Frames
	conns int

	mu    *sync.Mutex
	count map[uint64]int
	sizes map[int]int
	times map[int]time.Time
}

func newRecording(target codec.Frames, conns int) recording {
	return recording{target, conns, new(sync.Mutex), make(map[uint64]int), make(map[int]int), make(map[int]time.Time)}
}

type recordingCodec struct {
	codec.Codec
	to recording
}

// Codec returns a codec that records what it appends.
func (r recording) Codec() codec.Codec { return recordingCodec{r.Frames.Codec(), r} }

// AppendRequest records the request.
func (c recordingCodec) AppendRequest(dst []byte, id uint64, content []byte, of *traffic.Session) []byte {
	if id >= 1<<32 { // the run measures a request's length with number 1
		number := id >> 16 & 0xffff
		c.to.mu.Lock()
		n := c.to.count[number]*c.to.conns + int(number)
		c.to.count[number]++
		c.to.sizes[n], c.to.times[n] = len(content), time.Now()
		c.to.mu.Unlock()
	}
	return c.Codec.AppendRequest(dst, id, content, of)
}

// runParts runs all parts of a plan concurrently from one start time, with the counts that each
// reported for its intervals.
func runParts(t *testing.T, p Plan, k int) (agents []Agent, told []*Measured, begun time.Time) {
	t.Helper()
	agents, told = make([]Agent, k), make([]*Measured, k)
	starts := make([]chan time.Time, k)
	var ready, all sync.WaitGroup
	ready.Add(k)
	for i := range k {
		starts[i], told[i] = make(chan time.Time, 1), &Measured{}
		own := p
		own.Partition = Partition{
			Index: i, Of: k, Ready: ready.Done, Start: starts[i],
			Closed: func(m *Measured) { told[i].Add(overTheWire(t, m)) },
		}
		all.Go(func() {
			r, err := Run(context.Background(), own)
			if err != nil {
				t.Error(err)
				return
			}
			agents[i] = Agent{Name: fmt.Sprint(i), Machine: "here", Measured: overTheWire(t, r.Measured)}
		})
	}
	ready.Wait()
	begun = time.Now().Add(20 * time.Millisecond)
	for _, start := range starts {
		start <- begun
	}
	all.Wait()
	return agents, told, begun
}

// overTheWire returns m after encoding and decoding.
func overTheWire(t *testing.T, m *Measured) *Measured {
	text, err := json.Marshal(m)
	other := new(Measured)
	if err == nil {
		err = json.Unmarshal(text, other)
	}
	if err != nil {
		t.Error(err)
	}
	return other
}

// Parts send what one process sends, no request early, and their sum is the result bucket by
// bucket.
func TestPartsSendAndSumTheWhole(t *testing.T) {
	sideBySide(t)
	target := echoServer(t, "tcp")
	var sizes offer.Sizes
	if err := sizes.UnmarshalText([]byte("uniform:1..900")); err != nil {
		t.Fatal(err)
	}
	const conns, requests = 11, 700
	p := Plan{Conns: conns, Rate: 5000, Requests: requests, Arrivals: Poisson, Seed: 3, Sizes: sizes, Echo: true, MaxLag: time.Minute}
	want := make(map[int]int)
	for n := range requests {
		want[n] = sizes.At(p.Seed, uint64(n))
	}
	for _, k := range partsOf {
		sent := newRecording(target, conns)
		p.Target = sent
		agents, told, begun := runParts(t, p, k)
		if !maps.Equal(sent.sizes, want) {
			t.Errorf("%d parts have sent %d requests, or others than one process", k, len(sent.sizes))
		}
		due := schedule{arrivals: Poisson, rate: p.Rate, seed: p.Seed}
		for n := range requests {
			if early := begun.Add(due.at(int64(n))).Sub(sent.times[n]); early > 0 {
				t.Errorf("%d parts: request %d is %v early", k, n, early)
			}
		}
		p.Partition = Partition{}
		r, err := p.Merge(agents, nil)
		if err != nil {
			t.Fatal(err)
		}
		checkSum(t, r, agents, told)
		if r.Requests != requests || r.Errors["total"] != 0 || len(r.Agents) != k || int(*r.SizeMost) != slices.Max(slices.Collect(maps.Values(want))) {
			t.Errorf("%d parts: %d requests, errors %v, the largest %d", k, r.Requests, r.Errors, *r.SizeMost)
		}
	}
}

// checkSum compares a merged result with the sums of its parts.
func checkSum(t *testing.T, r *Result, agents []Agent, told []*Measured) {
	t.Helper()
	latency, service, lag := NewHistogram(), NewHistogram(), NewHistogram()
	for i, a := range agents {
		if !a.Measured.Same(told[i]) {
			t.Errorf("agent %d: its intervals are not its whole", i)
		}
		if a.Measured.Offered != told[i].Offered {
			t.Errorf("agent %d: its intervals have %d requests of the schedule, its whole %d", i, told[i].Offered, a.Measured.Offered)
		}
		latency.Merge(a.Measured.Latency.Histogram)
		service.Merge(a.Measured.Service.Histogram)
		lag.Merge(a.Measured.Lag.Histogram)
	}
	if !latency.Equals(r.Histograms.Latency) || !service.Equals(r.Histograms.Service) || !lag.Equals(r.Histograms.Lag) {
		t.Error("the merged histograms are not the sums")
	}
}

// A closed loop begins at the start time, too, and its number of requests is split.
func TestPartsOfAClosedLoop(t *testing.T) {
	p := Plan{Target: echoServer(t, "tcp"), Conns: 5, Requests: 1001, Echo: true}
	agents, _, _ := runParts(t, p, 3)
	r, err := p.Merge(agents, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.Requests != 1001 || r.Agents[0].Conns != 2 || r.Agents[2].Conns != 1 || r.Agents[1].Requests != 334 {
		t.Errorf("%d requests; %+v", r.Requests, r.Agents)
	}
}

// A result is invalid if an agent is missing, slow or faulty, and the reason names it.
func TestMergeNamesWhoIsToBlame(t *testing.T) {
	good := func() *Measured {
		m := &Measured{tally: *newTally(true), Span: time.Second, Lag: newHistogram(), Offered: 1000, CPUKnown: true, CPU: time.Second / 2, CPUSpan: time.Second, Procs: 2}
		m.During, m.Good = 1000, 1000
		m.Latency.record(1000, 1000)
		m.Service.record(1000, 1000)
		m.Lag.record(1000, 1000)
		return m
	}
	p := Plan{Target: codec.Frames{Address: "127.0.0.1:1"}, Conns: 3, Rate: 3000, For: time.Second}
	for name, c := range map[string]struct {
		change func(all []Agent)
		want   string // empty: valid
	}{
		"good":    {func([]Agent) {}, ""},
		"missing": {func(all []Agent) { all[1].Measured = nil }, "agent b has not reported its counts; "},
		"behind": {func(all []Agent) {
			for _, a := range all {
				a.Measured.During = 500
			}
		}, "only 1500 of the 3000 requests offered were answered in time"},
		"missing, and behind": {func(all []Agent) {
			all[0].Measured.During, all[1].Measured = 500, nil
		}, "agent b has not reported its counts; "},
		"faulty": {func(all []Agent) { all[2].Fault = "is gone; look for it" }, "agent c is gone; look for it"},
		"failed": {func(all []Agent) { all[0].Measured.Failure = &Error{Kind: Closed, What: "it ends", Try: "look"} }, "agent a: load: it ends; look"},
		"late": {func(all []Agent) { all[1].Measured.Lag.record(int64(time.Second), 100) },
			"agent b: the generator itself sent 1 % of the requests"},
		"stopped": {func(all []Agent) { all[1].Measured.Lag.record(int64(time.Second), 1) },
			"agent b: the generator itself did not run for 1.00 s"},
		"slow": {func(all []Agent) {
			all[1].Measured.Delay = newHistogram()
			all[1].Measured.Delay.record(int64(2*time.Millisecond), 100)
			all[1].Measured.Delay.record(1, 900)
		}, "agent b: the generator itself read 1 % of the answers 2"},
		"busy": {func(all []Agent) {
			for i := range all {
				all[i].Machine = "same"
				all[i].Measured.CPU = time.Second * 6 / 10
			}
		}, "the machine of agent a, b, c: the generator used 90 % of the CPU"},
	} {
		agents := []Agent{{Name: "a", Machine: "1", Measured: good()}, {Name: "b", Machine: "2", Measured: good()}, {Name: "c", Machine: "3", Measured: good()}}
		c.change(agents)
		r, err := p.Merge(agents, nil)
		if err != nil {
			t.Fatal(err)
		}
		if said := strings.Join(r.InvalidReasons, "\n"); r.Valid != (c.want == "") || !strings.HasPrefix(said, c.want) || r.Valid && *r.Rate != 3000 ||
			strings.Contains(said, "answered in time") != (name == "behind") {
			t.Errorf("%s: valid %v: %q, want %q; rate %v", name, r.Valid, said, c.want, *r.Rate)
		}
	}
}

// All counts are sent between machines, and merged there. A field that is not must be named here:
// what belongs to one agent, and what the coordinator judges and computes from the sum.
func TestEverythingCountedIsSentAndMerged(t *testing.T) {
	full := new(Measured)
	fill(reflect.ValueOf(full).Elem())
	sent := overTheWire(t, full)
	if first, second := must[[]byte](t)(json.Marshal(full)), must[[]byte](t)(json.Marshal(sent)); string(first) != string(second) {
		t.Errorf("on the way it has changed:\n%s\n%s", first, second)
	}
	if !sent.Same(full) {
		t.Error("on the way the counts have changed")
	}
	other := overTheWire(t, full)
	if other.Unsent++; other.Same(full) {
		t.Error("other counts are the same")
	}
	sum := new(Measured)
	sum.merge(sent)
	var missing []string
	zeros(reflect.ValueOf(sum).Elem(), "", &missing)
	want := []string{"Start", "End", "Late", "Failure", "Rivals", "ServerWaited", "CPU", "CPUSpan", "CPUKnown", "Procs", "Idle.Idle.ClosedAfter", "Idle.Idle.ServerBytes"}
	if !slices.Equal(missing, want) {
		t.Errorf("not merged: %v; want %v", missing, want)
	}
}

// The counts of another version are refused: they would be merged wrongly, or not at all.
func TestOtherCountsAreRefused(t *testing.T) {
	other := must[[]byte](t)(hdrhistogram.New(1, 1000, 2).Encode(hdrhistogram.V2CompressedEncodingCookieBase))
	ours := string(newHistogram().encoded())
	for text, want := range map[string]error{
		`{}`:                                  errNoTimes,
		`{"Latency":"` + string(other) + `"}`: errHistogram,
		`{"Latency":"` + ours + `","Steps":[{}]}`:                      errNoTimes,
		`{"Latency":"` + ours + `","Service":"` + string(other) + `"}`: errHistogram,
	} {
		err := json.Unmarshal([]byte(text), new(Measured))
		if !errors.Is(err, want) {
			t.Errorf("%.60s: %v, want %v", text, err, want)
		}
	}
	if err := json.Unmarshal([]byte(`{"Latency":"`+ours+`"}`), new(Measured)); err != nil {
		t.Error(err)
	}
}

// fill sets all exported fields below v.
func fill(v reflect.Value) {
	if v.Type() == reflect.TypeFor[histogram]() {
		h := v.Addr().Interface().(*histogram)
		*h = newHistogram()
		h.record(12345, 3)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Name != "Err" || f.Anonymous {
				fill(v.Field(i))
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Array:
		fill(v.Index(v.Len() / 2))
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.Uint8, reflect.Uint64:
		v.SetUint(3)
	default:
		v.SetInt(4)
	}
}

// zeros appends the names of the exported fields below v that are zero.
func zeros(v reflect.Value, name string, all *[]string) {
	if v.IsZero() {
		*all = append(*all, strings.TrimPrefix(name, "."))
		return
	}
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.Type() == reflect.TypeFor[histogram]() || v.Kind() != reflect.Struct {
		return
	}
	for i := range v.NumField() {
		switch f := v.Type().Field(i); {
		case f.Anonymous && !f.IsExported():
			zeros(v.Field(i), name, all)
		case f.IsExported() && f.Name != "Err":
			zeros(v.Field(i), name+"."+f.Name, all)
		}
	}
}
