package exchange

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/record"
)

// vegetaReport is the part of vegeta report -type=json that hone reads. Times are in nanoseconds.
type vegetaReport struct {
	Latencies *struct {
		P50 time.Duration `json:"50th"`
		P99 time.Duration `json:"99th"`
	} `json:"latencies"`
	Earliest time.Time `json:"earliest"`
	Requests int64     `json:"requests"`
	Success  float64   `json:"success"`
}

// vegetaResult is the part of one of vegeta's results that hone reads.
type vegetaResult struct {
	Code      uint16        `json:"code"`
	Timestamp time.Time     `json:"timestamp"`
	Latency   time.Duration `json:"latency"`
	Error     string        `json:"error"`
	URL       string        `json:"url"`
}

// readVegeta reads a report or results, and detects which.
func readVegeta(in *bufio.Reader) (*reading, error) {
	first, err := in.Peek(1)
	if err != nil {
		return nil, errors.New("it is empty; give what vegeta attack or vegeta report -type=json wrote")
	}
	if first[0] != '{' {
		return vegetaResults(gob.NewDecoder(in).Decode)
	}
	if start, _ := in.Peek(64); bytes.Contains(start, []byte(`"latencies"`)) {
		return readVegetaReport(in)
	}
	return vegetaResults(json.NewDecoder(in).Decode)
}

func readVegetaReport(in io.Reader) (*reading, error) {
	data, err := text(in)
	if err != nil {
		return nil, err
	}
	var report vegetaReport
	if err := json.Unmarshal(data, &report); err != nil || report.Latencies == nil {
		return nil, errors.New("it is not a report of vegeta's; give what vegeta report -type=json wrote")
	}
	r := &reading{Measured: Measured{Generator: "vegeta"}, requests: report.Requests}
	r.failed = report.Requests - int64(report.Success*float64(report.Requests)+0.5)
	r.Sample.At = report.Earliest
	r.addTime("p50", report.Latencies.P50)
	r.addTime("p99", report.Latencies.P99)
	r.Lacks = append(r.Lacks, "p999, a distribution, and intervals: import the results that the report was made of",
		"the target, and the rate that was asked for: compare only runs of one attack")
	return r, nil
}

// mostResults bounds the memory of an import: 16 bytes each.
const mostResults = 20_000_000

// finished is a request: when it ended, since the first began, and how long it took.
type finished struct{ end, took time.Duration }

// vegetaResults reads results one by one, and computes what a load keeps: the whole distribution,
// and one for each second.
func vegetaResults(decode func(any) error) (*reading, error) {
	r := &reading{Measured: Measured{Generator: "vegeta"}}
	var all []finished
	var epoch time.Time
	for {
		var one vegetaResult
		err := decode(&one)
		if err == io.EOF {
			break
		}
		switch {
		case err != nil:
			return nil, fmt.Errorf("result %d: %w; give what vegeta attack wrote, or vegeta encode --to json", len(all)+1, err)
		case len(all) == mostResults:
			return nil, fmt.Errorf("it has more than %d results; give a report of it", mostResults)
		case one.Timestamp.IsZero() || one.Latency < 0:
			return nil, fmt.Errorf("result %d has no time; give what vegeta attack wrote", len(all)+1)
		}
		if len(all) == 0 {
			epoch, r.Scenario = one.Timestamp, "target="+withoutHost(one.URL)+"\n"
		}
		if one.Error != "" || one.Code < 200 || one.Code >= 400 {
			r.failed++
		}
		all = append(all, finished{one.Timestamp.Sub(epoch) + one.Latency, one.Latency})
	}
	r.requests = int64(len(all))
	if len(all) == 0 {
		return nil, errors.New("it has no results; give what vegeta attack wrote")
	}
	r.Sample.At = epoch
	r.Lacks = append(r.Lacks, "the rate that was asked for: compare only runs of one attack",
		"the wait for a worker: times are from the moment one took up a request")
	slices.SortFunc(all, func(a, b finished) int { return cmp.Compare(a.end, b.end) })
	return r, r.distribute(all)
}

// distribute computes histograms of requests that are sorted by their ends.
func (r *reading) distribute(all []finished) error {
	whole, interval := newTimes(), newTimes()
	length := max(1, (all[len(all)-1].end+3600*time.Second-1)/(3600*time.Second)) * time.Second
	rate := record.Series{Name: "rate", Unit: "req/s", Step: length}
	next := 0
	for start := time.Duration(0); next < len(all); start += length {
		interval.Reset()
		for ; next < len(all) && (all[next].end < start+length || all[next].end < 0); next++ {
			took := min(max(int64(all[next].took), 1), int64(time.Hour))
			if err := errors.Join(interval.RecordValue(took), whole.RecordValue(took)); err != nil {
				return err
			}
		}
		end := min(start+length, max(all[len(all)-1].end, start+1))
		if err := r.keep(interval, start, end); err != nil {
			return err
		}
		rate.Values = append(rate.Values, float64(interval.TotalCount())/(end-start).Seconds())
	}
	r.Sample.Series = append(r.Sample.Series, rate)
	q := load.QuantilesOf(whole)
	for _, f := range []struct {
		name  string
		value *float64
	}{{"p50", q.P50}, {"p99", q.P99}, {"p999", q.P999}} {
		if f.value != nil {
			r.add(f.name, "µs", record.Lower, *f.value)
		}
	}
	return r.keep(whole, 0, 0)
}

// newTimes returns a histogram with the range of a load's.
func newTimes() *hdrhistogram.Histogram { return hdrhistogram.New(1, int64(time.Hour), 3) }

func (r *reading) keep(times *hdrhistogram.Histogram, start, end time.Duration) error {
	data, err := times.EncodeV2()
	if err != nil {
		return err
	}
	r.Sample.Histograms = append(r.Sample.Histograms, record.Histogram{Name: latencyName, Start: start, End: end, Data: data})
	return nil
}
