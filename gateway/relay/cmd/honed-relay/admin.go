package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/gateway/internal/commandline"
	"github.com/hone-go/hone/observe"
)

// startAdmin serves the pages of package observe and the relay's counters under /relay/.
func (f *relaying) startAdmin(r *relay) (addr string, stop func(), err error) {
	if f.admin == "off" {
		return "off", func() {}, nil
	}
	token, err := commandline.ReadSecret("--admin-token-file", f.adminToken)
	if err != nil {
		return "", nil, err
	}
	inner := &observe.Admin{
		Stats:  func() engine.Stats { return engine.Stats{} }, // a relay serves nobody
		Ready:  func() bool { return r.stats(time.Now()).Failing < notReady.Seconds() },
		Token:  token,
		Info:   observe.Info{Service: "honed-relay", Version: commandline.Version(release)},
		Logger: r.logger,
	}
	guard := &observe.Guard{Token: token}
	ln, err := guard.Listen(f.admin)
	if err != nil {
		return "", nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/", inner.Handler())
	mux.Handle("/relay/stats", guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(r.stats(time.Now()))
	})))
	mux.Handle("/relay/metrics", guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		r.stats(time.Now()).writeMetrics(w, r.reader.Name)
	})))
	server, done := guard.Server(mux), make(chan struct{})
	go func() {
		defer close(done)
		server.Serve(ln)
	}()
	return ln.Addr().String(), func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := server.Shutdown(ctx); errors.Is(err, context.DeadlineExceeded) {
			server.Close()
		}
		<-done
	}, nil
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
	s.Dead, s.Waiting = r.dead.counts()
	return s
}

// since returns the seconds since a time in Unix milliseconds; 0: there is none.
func since(now time.Time, ms int64) float64 {
	if ms == 0 {
		return 0
	}
	return max(now.Sub(time.UnixMilli(ms)).Seconds(), 0)
}

// writeMetrics writes the counters for Prometheus.
func (s stats) writeMetrics(w io.Writer, reader string) {
	for _, m := range []struct {
		name, kind, help string
		value            any
	}{
		{"honed_relay_records_total", "counter", "Messages that the destination has.", s.Records},
		{"honed_relay_bytes_total", "counter", "Bytes of their data.", s.Bytes},
		{"honed_relay_batches_total", "counter", "Batches finished.", s.Batches},
		{"honed_relay_retries_total", "counter", "Attempts that failed and were repeated.", s.Retries},
		{"honed_relay_refused_total", "counter", "Messages put into the dead-letter log, refused or waiting.", s.Refused},
		{"honed_relay_gaps_total", "counter", "Gaps passed with --accept-gaps.", s.Gaps},
		{"honed_relay_dead_letters", "gauge", "Refused messages in the dead-letter log.", s.Dead},
		{"honed_relay_waiting", "gauge", "Messages in the dead-letter log that wait behind refused ones, or are being retried.", s.Waiting},
		{"honed_relay_lag_seconds", "gauge", "Age of the oldest message in hand; 0: none is.", s.Lag},
		{"honed_relay_failing_seconds", "gauge", "For how long every attempt has failed; 0: the destination works.", s.Failing},
		{"honed_relay_last_success_timestamp_seconds", "gauge", "When a batch was last finished; 0: not since the start.", s.LastSuccess},
	} {
		fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n%s{reader=%q} %v\n", m.name, m.help, m.name, m.kind, m.name, reader, m.value)
	}
}
