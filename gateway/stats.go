package gateway

import (
	"slices"
	"sync"
	"time"
)

// counters are what Stats counts, as opposed to what it finds when it is called.
type counters struct {
	mu sync.Mutex
	Stats
}

func (c *counters) add(change func(st *Stats)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.Stats)
}

func (c *counters) now() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := c.Stats
	st.Appends.Counts = slices.Clone(st.Appends.Counts)
	return st
}

// timeBounds are the upper bounds of the buckets but for the last one.
var timeBounds = [...]time.Duration{
	100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond, time.Millisecond, 2500 * time.Microsecond,
	5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond,
	250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second,
}

func (st *Stats) appended(d time.Duration) {
	i, _ := slices.BinarySearch(timeBounds[:], d)
	st.Appends.Counts[i]++
	st.Appends.Sum += d
	st.LastAppend = time.Now().UTC().Truncate(time.Millisecond)
}

// Times are durations by size.
type Times struct {
	Bounds []time.Duration `json:"bounds_ns"` // ascending
	Counts []uint64        `json:"counts"`    // up to each bound and above the one before; one more for the rest
	Sum    time.Duration   `json:"sum_ns"`
}

// Stats are a Server's counters since its start, and its current state.
type Stats struct {
	Records    uint64 `json:"records"`    // stored
	Duplicates uint64 `json:"duplicates"` // resent by a client, acknowledged, not stored again
	Envelopes  uint64 `json:"envelopes"`  // stored, checkpoints included
	Bytes      uint64 `json:"bytes"`      // of the envelopes
	Refused    uint64 `json:"refused"`    // handshakes and records
	Ahead      uint64 `json:"ahead"`      // of these, posts of producers ahead of the log, as after a restore
	Producers  int    `json:"producers"`  // remembered
	// Unauthorised are clients with a wrong token or certificate, at any door.
	Unauthorised uint64 `json:"unauthorised"`
	Position     uint64 `json:"position"` // of the newest envelope
	Clients      int    `json:"clients"`  // remembered
	Queued       int    `json:"queued"`   // records waiting for the log
	QueuedSize   int    `json:"queued_bytes"`
	Full         bool   `json:"full"`     // the log has no space; the server acknowledges nothing
	Starting     bool   `json:"starting"` // the sessions are not recovered yet

	Appends    Times         `json:"appends"`              // how long the log took to store an envelope, fsync or replication included
	LastAppend time.Time     `json:"last_append,omitzero"` // zero: none since the start
	Waiting    time.Duration `json:"waiting_ns"`           // for how long the oldest unacknowledged record has waited for the log
	// Connected says whether the log is connected to its cluster; nil: it has none.
	Connected      *bool  `json:"connected,omitempty"`
	Disconnections uint64 `json:"disconnections,omitempty"` // of the log from its cluster
	LogSize        int64  `json:"log_bytes,omitempty"`      // 0: the log does not know
	LogLeft        *int64 `json:"log_left_bytes,omitempty"` // what it may still grow; nil: the log does not know

	Readers   int    `json:"readers"`         // connected
	Delivered uint64 `json:"delivered_bytes"` // to readers
	Gaps      uint64 `json:"gaps"`            // that readers were told
	// Retention is what was deleted since the start, and what is not.
	Retention struct {
		First   uint64 `json:"first"`      // position of the log's first envelope
		Trims   uint64 `json:"trims"`      // how often it has deleted
		Bytes   int64  `json:"bytes"`      // deleted, roughly
		Held    int64  `json:"held_bytes"` // that age or size would delete, but readers need them
		Overrun uint64 `json:"overrun"`    // how often it has deleted what a reader needed (RetainHard)
	} `json:"retention"`

	LogTime    time.Time     `json:"log_time,omitzero"`
	ClockAhead time.Duration `json:"clock_ahead_ns"` // the wall clock minus log time
	ClockSteps uint64        `json:"clock_steps"`    // of the wall clock that log time did not follow
	ClockOff   bool          `json:"clock_off"`      // log time does not follow the wall clock now
}
