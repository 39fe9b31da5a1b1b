package main

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/hone-go/hone/gateway"
	"github.com/hone-go/hone/gateway/internal/commandline"
	"github.com/hone-go/hone/observe"
)

// startAdmin starts the admin side, before the log is opened, which may take long: the pages of package observe,
// and the gateway's own under /gateway/.
func (f *serving) startAdmin(behind *verification, logger *slog.Logger) (addr string, stop func(), err error) {
	srv := &f.srv
	side := &observe.Admin{
		Stats:    srv.EngineStats,
		Ready:    func() bool { return f.unready() == "" },
		Cause:    f.unready,
		Info:     observe.Info{Service: "honed", Version: commandline.Version(release)},
		Logger:   logger,
		Handlers: lists(srv),
	}
	side.Handlers["/gateway/stats"] = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { commandline.AnswerJSON(w, srv.Stats()) })
	side.Handlers["/gateway/metrics"] = commandline.AnswerMetrics(func(w io.Writer) {
		writeMetrics(w, srv.Stats(), behind)
		writeReaderMetrics(w, srv.ReaderStates())
	})
	return f.StartAdmin(side, commandline.ReadToken)
}

// unready returns why honed does not acknowledge, a word of docs/operations.md; "": it does.
func (f *serving) unready() string {
	st := f.srv.Stats()
	switch {
	case f.draining.Load():
		return "draining"
	case st.Starting:
		return "starting"
	case st.Full:
		return "full"
	case st.Connected != nil && !*st.Connected:
		return "disconnected"
	case st.Waiting >= stalledAfter:
		return "stalled"
	}
	return ""
}

// stalledAfter is how long a record may wait for the log before the server is not ready. An election
// in a cluster takes up to 9 s.
const stalledAfter = 15 * time.Second

func writeMetrics(w io.Writer, st gateway.Stats, behind *verification) {
	number := map[bool]int{true: 1}
	last := 0.0
	if !st.LastAppend.IsZero() {
		last = float64(st.LastAppend.UnixMilli()) / 1e3
	}
	m := commandline.Metrics{To: w}
	m.Counter("honed_records_total", "Records stored.", st.Records)
	m.Counter("honed_duplicates_total", "Records that a client resent and that were stored already.", st.Duplicates)
	m.Counter("honed_envelopes_total", "Envelopes stored, checkpoints included.", st.Envelopes)
	m.Counter("honed_envelope_bytes_total", "Bytes of the envelopes stored.", st.Bytes)
	m.Counter("honed_refused_total", "Handshakes and records refused.", st.Refused)
	m.Counter("honed_unauthorised_total", "Clients refused for a wrong token or certificate.", st.Unauthorised)
	m.Counter("honed_ahead_total", "Posts refused because records of their producer are missing.", st.Ahead)
	m.Gauge("honed_producers", "Producers remembered.", st.Producers)
	m.Gauge("honed_log_position", "Position of the newest envelope.", st.Position)
	m.Gauge("honed_clients", "Clients remembered.", st.Clients)
	m.Gauge("honed_queued_records", "Records waiting for the log.", st.Queued)
	m.Gauge("honed_queued_bytes", "Bytes waiting for the log.", st.QueuedSize)
	m.Gauge("honed_log_full", "1 while the log has no space and nothing is acknowledged.", number[st.Full])
	m.Gauge("honed_clock_ahead_seconds", "The wall clock minus log time.", st.ClockAhead.Seconds())
	m.Counter("honed_clock_steps_total", "Steps of the wall clock that log time did not follow.", st.ClockSteps)
	m.Gauge("honed_clock_off", "1 while log time does not follow the wall clock.", number[st.ClockOff])
	m.Gauge("honed_starting", "1 while the log is opened and the sessions are recovered.", number[st.Starting])
	m.Gauge("honed_verify_envelopes", "Envelopes of the log that the background verification reads.", behind.all.Load())
	m.Gauge("honed_verify_envelopes_done", "Envelopes that it has read.", behind.done.Load())
	m.Gauge("honed_verified_timestamp_seconds", "When a background verification last ended; 0: not since the start.", behind.ended.Load())
	m.Gauge("honed_log_damage", "Damaged places that the last background verification found.", behind.damage.Load())
	m.Gauge("honed_unacknowledged_seconds", "For how long the oldest unacknowledged record has waited for the log.", st.Waiting.Seconds())
	m.Gauge("honed_readers", "Readers connected.", st.Readers)
	m.Counter("honed_delivered_bytes_total", "Bytes sent to readers.", st.Delivered)
	m.Counter("honed_reader_gaps_total", "Gaps that readers were told: records that they will not get.", st.Gaps)
	m.Gauge("honed_log_first_position", "Position of the log's first envelope.", st.Retention.First)
	m.Counter("honed_retention_trims_total", "How often retention has deleted records.", st.Retention.Trims)
	m.Counter("honed_retention_bytes_total", "Bytes that retention has deleted.", st.Retention.Bytes)
	m.Gauge("honed_retention_held_bytes", "Bytes that retention would delete if no reader needed them.", st.Retention.Held)
	m.Counter("honed_retention_overruns_total", "How often retention has deleted records that a reader needed (--retain-hard).", st.Retention.Overrun)
	m.Gauge("honed_last_append_timestamp_seconds", "When the log last stored an envelope; 0: not since the start.", last)
	if st.Connected != nil {
		m.Gauge("honed_log_connected", "1 while the log is connected to its cluster.", number[*st.Connected])
		m.Counter("honed_log_disconnections_total", "Lost connections to the cluster.", st.Disconnections)
	}
	if st.LogLeft != nil {
		m.Gauge("honed_log_bytes", "Size of the log.", st.LogSize)
		m.Gauge("honed_log_left_bytes", "How much the log may grow, up to --max-log and the disk's reserve.", *st.LogLeft)
	}
	m.Head("honed_append_seconds", "histogram", "How long the log took to store an envelope, fsync or replication included.")
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
