package exchange_test

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/hone-go/hone/tool/exchange"
	"github.com/hone-go/hone/tool/record"
)

const wrkSays = `Running 30s test @ http://127.0.0.1:8080/users?key=hush
  12 threads and 400 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   635.91us    0.89ms  12.92ms   93.69%
    Req/Sec    56.20k     8.07k   62.00k    86.54%
  Latency Distribution
     50%  250.00us
     75%  491.00us
     90%  700.00us
     99%    5.80ms
  22464657 requests in 30.00s, 17.76GB read
  Socket errors: connect 1, read 2, write 3, timeout 4
  Non-2xx or 3xx responses: 5
Requests/sec: 748868.53
Transfer/sec:    606.33MB
`

const wrk2Says = `Running 10s test @ http://127.0.0.1:8080/
  2 threads and 100 connections
  Thread calibration: mean lat.: 9747 usec, rate sampling interval: 21 msec
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     6.46ms    1.93ms  12.34s    67.66%
    Req/Sec     1.05k     1.12k    2.50k    64.84%
  Latency Distribution (HdrHistogram - Recorded Latency)
 50.000%    6.67ms
 75.000%    7.78ms
 99.000%   10.21ms
 99.900%   1.34s
100.000%   1.55m
----------------------------------------------------------
  20000 requests in 10.00s, 19.01MB read
Requests/sec:   2000.12
Transfer/sec:      3.81MB
`

const k6Exports = `{"metrics": {
 "http_reqs": {"count": 400, "rate": 200.25},
 "http_req_duration": {"med": 1.5, "p(99)": 2.25, "max": 4},
 "http_req_failed": {"passes": 10, "fails": 390, "value": 0.025},
 "dropped_iterations": {"count": 7, "rate": 1},
 "vus_max": {"value": 20, "min": 20, "max": 20}}, "root_group": {}}`

const k6Summarizes = `{"options": {}, "metrics": {
 "http_reqs": {"type": "counter", "contains": "default", "values": {"count": 400, "rate": 200.25}},
 "http_req_duration": {"type": "trend", "contains": "time", "values": {"med": 1.5, "p(99)": 2.25, "p(99.9)": 3.5}},
 "http_req_failed": {"type": "rate", "contains": "default", "values": {"rate": 0, "passes": 0, "fails": 400}}}}`

const vegetaReports = `{"latencies":{"total":465689444,"mean":1164223,"50th":1131329,"90th":1244445,"95th":1326680,"99th":1745436,"max":2825162,"min":1068041},
"earliest":"2026-11-23T01:07:44.5Z","requests":400,"rate":200.49,"throughput":200.3,"success":0.995,"status_codes":{"200":398,"500":2},"errors":["500"]}`

func figures(s record.Sample) string {
	var all []string
	for _, m := range s.Metrics {
		all = append(all, fmt.Sprintf("%s=%g%s", m.Name, m.Value, m.Unit))
	}
	return strings.Join(all, " ")
}

func TestRead(t *testing.T) {
	for name, c := range map[string]struct {
		from, text, figures, scenario, reasons, lacks string
	}{
		"wrk":            {"wrk", wrkSays, "rate=748868.53req/s p50=250µs p99=5800µs", "target=http /users?…\nthreads=12\nconns=400\nfor=30s\n", "15 of 22464657 requests failed", "closed loop"},
		"wrk2":           {"wrk", wrk2Says, "p50=6670µs p99=10210µs p999=1.34e+06µs", "target=http /\nthreads=2\nconns=100\nfor=10s\n", "", "kept up"},
		"k6 export":      {"k6", k6Exports, "rate=200.25req/s p50=1500µs p99=2250µs", "vus=20\n", "k6 did not start 7 iterations when they were due; give it more VUs|10 of 400 requests failed", "p999: run k6 with"},
		"k6 summary":     {"k6", k6Summarizes, "rate=200.25req/s p50=1500µs p99=2250µs p999=3500µs", "", "", "the target"},
		"vegeta":         {"vegeta", vegetaReports, "p50=1131.329µs p99=1745.436µs", "", "2 of 400 requests failed", "p999, a distribution"},
		"no percentiles": {"wrk", strings.ReplaceAll(wrkSays, "%  ", "  "), "rate=748868.53req/s", "target=http /users?…\nthreads=12\nconns=400\nfor=30s\n", "15 of", "any percentile"},
	} {
		m, err := exchange.Read(c.from, strings.NewReader(c.text), false)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := figures(m.Sample); got != c.figures || m.Scenario != c.scenario {
			t.Errorf("%s: %s under %q, want %s under %q", name, got, m.Scenario, c.figures, c.scenario)
		}
		reasons := strings.Join(m.Sample.Reasons, "|")
		if !strings.HasPrefix(reasons, c.reasons) || m.Sample.Valid != (c.reasons == "") || (c.reasons == "") != (reasons == "") {
			t.Errorf("%s: valid %v, because %q", name, m.Sample.Valid, reasons)
		}
		if !strings.Contains(strings.Join(m.Lacks, "\n"), c.lacks) {
			t.Errorf("%s lacks %q", name, m.Lacks)
		}
	}
	if m, err := exchange.Read("wrk", strings.NewReader(wrkSays), true); err != nil || !m.Sample.Valid || m.Generator != "wrk" {
		t.Errorf("errors allowed: %+v, %v", m, err)
	}
	if m, err := exchange.Read("vegeta", strings.NewReader(strings.Replace(vegetaReports, `"requests":400`, `"requests":40`, 1)), true); err != nil || m.Sample.Valid {
		t.Errorf("40 requests: %+v, %v", m, err)
	}
}

// vegetaResult has the fields that vegeta's results have.
type vegetaResult struct {
	Attack    string        `json:"attack"`
	Seq       uint64        `json:"seq"`
	Code      uint16        `json:"code"`
	Timestamp time.Time     `json:"timestamp"`
	Latency   time.Duration `json:"latency"`
	BytesIn   uint64        `json:"bytes_in"`
	Error     string        `json:"error"`
	Body      []byte        `json:"body"`
	URL       string        `json:"url"`
}

// Results have what the report of them lacks: the whole distribution, and each second of it.
func TestVegetaResults(t *testing.T) {
	epoch := time.Date(2026, 11, 23, 1, 7, 44, 0, time.UTC)
	var asGob, asJSON bytes.Buffer
	toGob, toJSON := gob.NewEncoder(&asGob), json.NewEncoder(&asJSON)
	for i := range 2500 {
		one := vegetaResult{Seq: uint64(i), Code: 200, Timestamp: epoch.Add(time.Duration(i) * time.Millisecond), Latency: time.Millisecond, Body: []byte("x"), URL: "http://a.example/x?key=hush"}
		if i >= 2490 {
			one.Latency, one.Code = 100*time.Millisecond, 503
		}
		if toGob.Encode(one) != nil || toJSON.Encode(one) != nil {
			t.Fatal("not encoded")
		}
	}
	for what, in := range map[string]*bytes.Buffer{"gob": &asGob, "JSON": &asJSON} {
		m, err := exchange.Read("vegeta", in, false)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		s := m.Sample
		if !s.At.Equal(epoch) || m.Scenario != "target=http /x?…\n" || len(s.Reasons) != 1 || !strings.HasPrefix(s.Reasons[0], "10 of 2500 requests failed") {
			t.Errorf("%s: at %v, %q, %q", what, s.At, m.Scenario, s.Reasons)
		}
		if got := figures(s); got != "p50=1000.447µs p99=1000.447µs p999=100007.935µs" {
			t.Errorf("%s: %s", what, got)
		}
		var counts []int64
		for _, h := range s.Histograms {
			times, err := hdrhistogram.Decode(h.Data)
			if err != nil {
				t.Fatal(err)
			}
			counts = append(counts, times.TotalCount())
		}
		if !slices.Equal(counts, []int64{999, 1000, 501, 2500}) || len(s.Series[0].Values) != 3 {
			t.Errorf("%s: %v in the intervals and the whole, rates %v", what, counts, s.Series)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for name, c := range map[string]struct{ from, text, says string }{
		"an unknown generator": {"ab", "", "use wrk, k6, vegeta"},
		"wrk of nothing":       {"wrk", "", "give its whole output"},
		"wrk of a half":        {"wrk", wrkSays[:300], "give its whole output"},
		"k6 of text":           {"k6", "checks: 100%", "--summary-export"},
		"k6 of nothing":        {"k6", "{}", "for an HTTP test"},
		"vegeta of nothing":    {"vegeta", "", "it is empty"},
		"vegeta of text":       {"vegeta", "Requests [total, rate]", "vegeta encode --to json"},
		"vegeta of other JSON": {"vegeta", `{"a": 1}`, "has no time"},
		"a very long report":   {"k6", `{"metrics": "` + strings.Repeat("x", 17<<20), "longer than 16 MiB"},
	} {
		m, err := exchange.Read(c.from, strings.NewReader(c.text), false)
		if said := fmt.Sprint(err); err == nil || !strings.Contains(said, c.says) {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
}

func TestJoin(t *testing.T) {
	read := func(from, text string) *exchange.Measured {
		m, err := exchange.Read(from, strings.NewReader(text), true)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	at := time.Date(2026, 11, 23, 1, 0, 0, 0, time.UTC)
	r, err := exchange.Join("old", at, []*exchange.Measured{read("wrk", wrkSays), read("wrk", wrkSays)})
	if err != nil || r.Name != "old" || r.Made != "wrk" || !r.At.Equal(at) || len(r.Samples) != 2 || r.Samples[1].Order != 2 || r.Environment.Soft[exchange.GeneratorKey] != "wrk" {
		t.Errorf("%+v, %v", r, err)
	}
	if strings.Contains(fmt.Sprint(r), "hush") {
		t.Errorf("the URL's query is kept: %+v", r)
	}
	for _, other := range []*exchange.Measured{read("wrk", strings.Replace(wrkSays, "400 conn", "40 conn", 1)), read("wrk", wrk2Says), read("k6", k6Exports)} {
		r, err := exchange.Join("x", at, []*exchange.Measured{read("wrk", wrkSays), other})
		if said := fmt.Sprint(err); !strings.Contains(said, "file 2 has another load") {
			t.Errorf("%+v, %v", r, err)
		}
	}
	if _, err := exchange.Join("x", at, nil); err == nil {
		t.Error("a run of nothing")
	}
}
