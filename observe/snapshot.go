package observe

import (
	"encoding/json"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/internal/sys"
)

// Snapshot is the response of /stats: a server's counters since it started and the resources
// that its process uses. The names are stable; hone load reads one Snapshot before and one
// after a run, and takes the difference. A value that is not available on this operating
// system is null.
type Snapshot struct {
	Schema string `json:"schema"` // identifies this format
	Engine string `json:"engine"`
	Info
	PID           int      `json:"pid"`
	UptimeSeconds float64  `json:"uptime_seconds"` // since the first use of the Admin
	CPUSeconds    *float64 `json:"cpu_seconds"`    // of the process, user and system
	RSSBytes      *int64   `json:"rss_bytes"`      // resident memory of the process
	Goroutines    int      `json:"goroutines"`

	Connections         int    `json:"connections"` // open now
	ConnectionsAccepted uint64 `json:"connections_accepted"`
	RequestsReceived    uint64 `json:"requests_received"` // given to handlers
	ResponsesSent       uint64 `json:"responses_sent"`    // see the package
	LateResponsesSent   uint64 `json:"late_responses_sent"`
	PushesSent          uint64 `json:"pushes_sent"`
	PushesDropped       uint64 `json:"pushes_dropped"`
	ReceivedBytes       uint64 `json:"received_bytes"`
	SentBytes           uint64 `json:"sent_bytes"`
	Panics              uint64 `json:"panics"`
	TLSHandshakes       uint64 `json:"tls_handshakes"`
	TLSResumed          uint64 `json:"tls_resumed"`
	TLSHandshakesFailed uint64 `json:"tls_handshakes_failed"`
	HandOffs            uint64 `json:"hand_offs"` // times a loop went on without a slow handler
	Helpers             int    `json:"helpers"`   // goroutines in addition to the event loops, now
	LoopSleeps          uint64 `json:"loop_sleeps"`
	LoopTurns           uint64 `json:"loop_turns"`
	LoopEvents          uint64 `json:"loop_events"`
	ConnectionBuffers   int64  `json:"connection_buffers"` // lent now
	BufferBytes         int64  `json:"connection_buffer_bytes"`
	OutputWaitingBytes  int64  `json:"output_waiting_bytes"` // unsent, now
	OutputMemoryBytes   int64  `json:"output_memory_bytes"`  // counted against total-output, now
	InputMemoryBytes    int64  `json:"input_memory_bytes"`   // counted against total-input, now
	ConnectionsInLine   int    `json:"connections_in_line"`  // waiting for room in total-output, now
	ConnectionsPaused   int    `json:"connections_paused"`   // not read because of total-in-flight, now
	RepliesOwed         int    `json:"replies_owed"`         // promised for later, now

	Rejected         map[string]uint64 `json:"rejected"`          // by reason
	ConnectionsEnded map[string]uint64 `json:"connections_ended"` // by reason
}

// snapshotSchema identifies the meaning of a Snapshot's fields; fields may be added.
const snapshotSchema = "hone.stats/1"

// Snapshot reads everything now.
func (a *Admin) Snapshot() Snapshot {
	a.init()
	st, sent := a.read()
	s := Snapshot{
		Schema:        snapshotSchema,
		Engine:        st.Engine,
		Info:          a.Info,
		PID:           os.Getpid(),
		UptimeSeconds: time.Since(a.began).Seconds(),
		RSSBytes:      residentBytes(),
		Goroutines:    runtime.NumGoroutine(),

		Connections:         st.Open,
		ConnectionsAccepted: st.Accepted,
		RequestsReceived:    st.Requests,
		ResponsesSent:       sent,
		LateResponsesSent:   st.Late,
		PushesSent:          st.Pushes,
		PushesDropped:       st.Dropped,
		ReceivedBytes:       st.BytesIn,
		SentBytes:           st.BytesOut,
		Panics:              st.Panics,
		TLSHandshakes:       st.Handshakes,
		TLSResumed:          st.Resumed,
		TLSHandshakesFailed: st.HandshakesFailed,
		HandOffs:            st.HandOffs,
		Helpers:             st.Helpers,
		LoopSleeps:          st.Sleeps,
		LoopTurns:           st.Turns,
		LoopEvents:          st.Events,
		ConnectionBuffers:   st.Buffers,
		BufferBytes:         st.Lent,
		OutputWaitingBytes:  st.Waiting,
		OutputMemoryBytes:   st.OutputMemory,
		InputMemoryBytes:    st.InputMemory,
		ConnectionsInLine:   st.InLine,
		ConnectionsPaused:   st.Paused,
		RepliesOwed:         st.Owed,

		Rejected:         map[string]uint64{},
		ConnectionsEnded: map[string]uint64{},
	}
	if cpu, ok := sys.ProcessTime(); ok {
		s.CPUSeconds = new(cpu.Seconds())
	}
	for _, own := range st.Own {
		if own.Name != "" {
			s.Rejected[own.Name] = own.Count
		}
	}
	for why, n := range reasons(st) {
		if rejection(why) {
			s.Rejected[why.String()] = n
		} else {
			s.ConnectionsEnded[why.String()] = n
		}
	}
	return s
}

func (a *Admin) serveStats(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	lines := json.NewEncoder(w)
	lines.SetIndent("", "  ")
	lines.Encode(a.Snapshot()) // it fails only if the client has disconnected
}

// answered keeps the number of responses from decreasing: see Admin.read.
type answered struct {
	mu   sync.Mutex
	most uint64
}

// read reads the server's counters once and derives the number of responses: requests that are
// no longer owed a reply. The two counters are not read at the same instant; a request between
// them makes the difference too small for a moment, and a counter must never decrease.
func (a *Admin) read() (st engine.Stats, sent uint64) {
	a.answered.mu.Lock()
	defer a.answered.mu.Unlock()
	st = a.Stats()
	if owed := uint64(max(0, st.Owed)); st.Requests > owed {
		a.answered.most = max(a.answered.most, st.Requests-owed)
	}
	return st, a.answered.most
}

// reasons iterates over every reason of the closed set, counted yet or not.
func reasons(st engine.Stats) func(yield func(engine.Reason, uint64) bool) {
	return func(yield func(engine.Reason, uint64) bool) {
		for i, n := range st.Ended {
			if i > 0 && !yield(engine.Reason(i), n) {
				return
			}
		}
	}
}

// rejection reports whether a reason counts as a rejection; see the package.
func rejection(why engine.Reason) bool {
	switch why {
	case engine.PeerClosed, engine.PeerReset, engine.ClosedHere, engine.Panicked, engine.ShuttingDown, engine.Forced:
		return false
	}
	return true
}

// residentBytes reads the resident set size, the second field of Linux's statm in pages; nil
// elsewhere.
func residentBytes() *int64 {
	statm, err := os.ReadFile("/proc/self/statm")
	fields := strings.Fields(string(statm))
	if err != nil || len(fields) < 2 {
		return nil
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return nil
	}
	return new(pages * int64(os.Getpagesize()))
}
