package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hone-go/hone/gateway"
	"github.com/hone-go/hone/gateway/internal/commandline"
	"github.com/hone-go/hone/observe"
)

// adminSide is the admin server of a gateway: the pages of package observe, and the
// gateway's own counters under /gateway/.
type adminSide struct {
	addr     string // empty: off
	draining atomic.Bool
	server   *http.Server
	done     chan struct{}
}

// startAdmin starts the admin side, before the log is opened, which may take long.
func (f *serving) startAdmin(srv *gateway.Server, behind *verification, logger *slog.Logger) (*adminSide, error) {
	a := &adminSide{}
	if f.admin == "off" {
		return a, nil
	}
	token := ""
	if f.adminToken != "" {
		text, err := os.ReadFile(f.adminToken)
		if err != nil {
			return nil, fmt.Errorf("--admin-token-file: %w", err)
		}
		if token = strings.TrimSpace(string(text)); token == "" {
			return nil, commandline.UsageError{Err: fmt.Errorf("--admin-token-file: %s is empty", f.adminToken)}
		}
	}
	inner := &observe.Admin{
		Stats:  srv.EngineStats,
		Ready:  func() bool { return !a.draining.Load() && ready(srv.Stats()) },
		Token:  token,
		Info:   observe.Info{Service: "honed", Dialect: "standard", Version: commandline.Version(release)},
		Logger: logger,
	}
	guard := &observe.Guard{Token: token, Posts: []string{readersPath, sessionsPath}}
	ln, err := guard.Listen(f.admin)
	if err != nil {
		return nil, err
	}
	a.serve(ln, inner, guard, srv, behind)
	return a, nil
}

// ready reports whether a server can acknowledge.
func ready(st gateway.Stats) bool {
	return !st.Starting && !st.Full && st.Waiting < stalledAfter && (st.Connected == nil || *st.Connected)
}

// stalledAfter is how long a record may wait for the log before the server is not ready. An election
// in a cluster takes up to 9 s.
const stalledAfter = 15 * time.Second

func (a *adminSide) serve(ln net.Listener, inner *observe.Admin, guard *observe.Guard, srv *gateway.Server, behind *verification) {
	mux := http.NewServeMux()
	mux.Handle("/", inner.Handler())
	mux.Handle("/gateway/stats", guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(srv.Stats())
	})))
	mux.Handle("/gateway/metrics", guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		writeMetrics(w, srv.Stats(), behind)
		writeReaderMetrics(w, srv.ReaderStates())
	})))
	mux.Handle(readersPath, guard.Handler(answerReaders(srv)))
	mux.Handle(sessionsPath, guard.Handler(answerSessions(srv)))
	a.addr, a.done = ln.Addr().String(), make(chan struct{})
	a.server = guard.Server(mux)
	go func() {
		defer close(a.done)
		a.server.Serve(ln)
	}()
}

// writeMetrics writes the gateway's counters for Prometheus.
func writeMetrics(w http.ResponseWriter, st gateway.Stats, behind *verification) {
	number := map[bool]int{true: 1}
	last := 0.0
	if !st.LastAppend.IsZero() {
		last = float64(st.LastAppend.UnixMilli()) / 1e3
	}
	type one struct {
		name, kind, help string
		value            any
	}
	all := []one{
		{"honed_records_total", "counter", "Records stored.", st.Records},
		{"honed_duplicates_total", "counter", "Records that a client resent and that were stored already.", st.Duplicates},
		{"honed_envelopes_total", "counter", "Envelopes stored, checkpoints included.", st.Envelopes},
		{"honed_envelope_bytes_total", "counter", "Bytes of the envelopes stored.", st.Bytes},
		{"honed_refused_total", "counter", "Handshakes and records refused.", st.Refused},
		{"honed_log_position", "gauge", "Position of the newest envelope.", st.Position},
		{"honed_clients", "gauge", "Clients remembered.", st.Clients},
		{"honed_queued_records", "gauge", "Records waiting for the log.", st.Queued},
		{"honed_queued_bytes", "gauge", "Bytes waiting for the log.", st.QueuedSize},
		{"honed_log_full", "gauge", "1 while the log has no space and nothing is acknowledged.", number[st.Full]},
		{"honed_log_keeps_all", "gauge", "1 if the log cannot be trimmed, because its stream has deny_purge.", number[st.KeepsAll]},
		{"honed_clock_ahead_seconds", "gauge", "The wall clock minus log time.", st.ClockAhead.Seconds()},
		{"honed_clock_steps_total", "counter", "Steps of the wall clock that log time did not follow.", st.ClockSteps},
		{"honed_clock_off", "gauge", "1 while log time does not follow the wall clock.", number[st.ClockOff]},
		{"honed_starting", "gauge", "1 while the log is opened and the sessions are recovered.", number[st.Starting]},
		{"honed_verify_envelopes", "gauge", "Envelopes of the log that the background verification reads.", behind.all.Load()},
		{"honed_verify_envelopes_done", "gauge", "Envelopes that it has read.", behind.done.Load()},
		{"honed_verified_timestamp_seconds", "gauge", "When a background verification last ended; 0: not since the start.", behind.ended.Load()},
		{"honed_log_damage", "gauge", "Damaged places that the last background verification found.", behind.damage.Load()},
		{"honed_unacknowledged_seconds", "gauge", "For how long the oldest unacknowledged record has waited for the log.", st.Waiting.Seconds()},
		{"honed_readers", "gauge", "Readers connected.", st.Readers},
		{"honed_delivered_bytes_total", "counter", "Bytes sent to readers.", st.Delivered},
		{"honed_reader_gaps_total", "counter", "Gaps that readers were told: records that they will not get.", st.Gaps},
		{"honed_log_first_position", "gauge", "Position of the log's first envelope.", st.Retention.First},
		{"honed_retention_trims_total", "counter", "How often retention has deleted records.", st.Retention.Trims},
		{"honed_retention_bytes_total", "counter", "Bytes that retention has deleted.", st.Retention.Bytes},
		{"honed_retention_held_bytes", "gauge", "Bytes that retention would delete if no reader needed them.", st.Retention.Held},
		{"honed_retention_overruns_total", "counter", "How often retention has deleted records that a reader needed (--retain-hard).", st.Retention.Overrun},
		{"honed_last_append_timestamp_seconds", "gauge", "When the log last stored an envelope; 0: not since the start.", last},
	}
	if st.Connected != nil {
		all = append(all, one{"honed_log_connected", "gauge", "1 while the log is connected to its cluster.", number[*st.Connected]},
			one{"honed_log_disconnections_total", "counter", "Lost connections to the cluster.", st.Disconnections})
	}
	if st.LogLeft != nil {
		all = append(all, one{"honed_log_bytes", "gauge", "Size of the log.", st.LogSize},
			one{"honed_log_left_bytes", "gauge", "How much the log may grow, up to --max-log and the disk's reserve.", *st.LogLeft})
	}
	for _, m := range all {
		metric(w, m.name, m.kind, m.help)
		fmt.Fprintf(w, "%s %v\n", m.name, m.value)
	}
	metric(w, "honed_append_seconds", "histogram", "How long the log took to store an envelope, fsync or replication included.")
	stored := uint64(0)
	for i, n := range st.Appends.Counts {
		stored += n
		bound := "+Inf"
		if i < len(st.Appends.Bounds) {
			bound = strconv.FormatFloat(st.Appends.Bounds[i].Seconds(), 'g', -1, 64)
		}
		fmt.Fprintf(w, "honed_append_seconds_bucket{le=%q} %d\n", bound, stored)
	}
	fmt.Fprintf(w, "honed_append_seconds_sum %v\nhoned_append_seconds_count %d\n", st.Appends.Sum.Seconds(), stored)
}

// metric writes what precedes a metric's values.
func metric(w io.Writer, name, kind, help string) {
	fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

// stop shuts the admin server down.
func (a *adminSide) stop() {
	if a.server == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := a.server.Shutdown(ctx); errors.Is(err, context.DeadlineExceeded) {
		a.server.Close()
	}
	<-a.done
}
