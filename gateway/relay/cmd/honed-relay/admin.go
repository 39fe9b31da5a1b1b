package main

import (
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/gateway/internal/commandline"
	"github.com/hone-go/hone/observe"
)

// startAdmin serves the pages of package observe and the relay's counters under /relay/.
func (f *relaying) startAdmin() (addr string, stop func(), err error) {
	r := &f.relay
	side := &observe.Admin{
		Stats:  func() engine.Stats { return engine.Stats{} }, // a relay serves nobody
		Ready:  func() bool { return r.stats(time.Now()).Failing < notReady.Seconds() },
		Cause:  func() string { return "failing" }, // its destination
		Info:   observe.Info{Service: "honed-relay", Version: commandline.Version(release)},
		Logger: r.logger,
		Handlers: map[string]http.Handler{
			"/relay/stats":   http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { commandline.AnswerJSON(w, r.stats(time.Now())) }),
			"/relay/metrics": commandline.AnswerMetrics(func(w io.Writer) { r.stats(time.Now()).writeMetrics(w, r.reader.Name) }),
		},
	}
	return f.StartAdmin(side, commandline.ReadSecret)
}

// notReady is for how long the destination may fail before /healthz says so.
const notReady = 15 * time.Second

// stats are the counters at one time.
type stats struct {
	Records     uint64  `json:"records"`
	Bytes       uint64  `json:"bytes"`
	Batches     uint64  `json:"batches"`
	Retries     uint64  `json:"retries"`
	Refused     uint64  `json:"refused"`
	Gaps        uint64  `json:"gaps"`
	Dead        int     `json:"dead_letters"`
	Waiting     int     `json:"waiting"`
	Damaged     int     `json:"dead_damaged"`
	Lag         float64 `json:"lag_seconds"`
	Failing     float64 `json:"failing_seconds"`
	LastSuccess float64 `json:"last_success"`
}

func (r *relay) stats(now time.Time) stats {
	c := &r.counts
	s := stats{
		Records: c.records.Load(), Bytes: c.bytes.Load(), Batches: c.batches.Load(), Retries: c.retries.Load(),
		Refused: c.dead.Load(), Gaps: c.gaps.Load(),
		Lag: since(now, c.oldest.Load()), Failing: since(now, c.trying.Load()), LastSuccess: float64(c.success.Load()) / 1e3,
	}
	s.Dead, s.Waiting, s.Damaged = r.dead.counts()
	return s
}

// since returns the seconds since a time in Unix milliseconds; 0: there is none.
func since(now time.Time, ms int64) float64 {
	if ms == 0 {
		return 0
	}
	return max(now.Sub(time.UnixMilli(ms)).Seconds(), 0)
}

func (s stats) writeMetrics(w io.Writer, reader string) {
	m := commandline.Metrics{To: w, Labels: fmt.Sprintf("{reader=%q}", reader)}
	m.Counter("honed_relay_records_total", "Messages that the destination has.", s.Records)
	m.Counter("honed_relay_bytes_total", "Bytes of their data.", s.Bytes)
	m.Counter("honed_relay_batches_total", "Batches finished.", s.Batches)
	m.Counter("honed_relay_retries_total", "Attempts that failed and were repeated.", s.Retries)
	m.Counter("honed_relay_refused_total", "Messages put into the dead-letter log, refused or waiting.", s.Refused)
	m.Counter("honed_relay_gaps_total", "Gaps passed with --accept-gaps.", s.Gaps)
	m.Gauge("honed_relay_dead_letters", "Refused messages in the dead-letter log.", s.Dead)
	m.Gauge("honed_relay_waiting", "Messages in the dead-letter log that wait behind refused ones, or are being retried.", s.Waiting)
	m.Gauge("honed_relay_dead_damaged", "Damaged places that the dead-letter log has: messages in them are lost.", s.Damaged)
	m.Gauge("honed_relay_lag_seconds", "Age of the oldest message in hand; 0: none is.", s.Lag)
	m.Gauge("honed_relay_failing_seconds", "For how long every attempt has failed; 0: the destination works.", s.Failing)
	m.Gauge("honed_relay_last_success_timestamp_seconds", "When a batch was last finished; 0: not since the start.", s.LastSuccess)
}
