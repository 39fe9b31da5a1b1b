package gateway

import (
	"cmp"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/hone-go/hone/engine"
)

// EngineStats returns the engine's counters, summed over the connections of all doors. It
// is for an admin server.
func (s *Server) EngineStats() engine.Stats {
	s.prepared.Do(s.prepare)
	return sum(sum(s.framed.Stats(), s.posts.Stats().Stats), s.mqtt.engine.Stats())
}

func sum(a, b engine.Stats) engine.Stats {
	addNumbers(reflect.ValueOf(&a).Elem(), reflect.ValueOf(b))
	// The doors share Limits.Conns; the other budgets of each are its own and add up.
	a.Limits.TotalOutput += b.Limits.TotalOutput
	a.Limits.TotalInput += b.Limits.TotalInput
	a.Limits.TotalInFlight += b.Limits.TotalInFlight
	a.Limits.Helpers += b.Limits.Helpers
	for _, own := range b.Own { // each protocol has its own reasons
		for i := range a.Own {
			if a.Own[i].Name == own.Name || a.Own[i].Name == "" {
				a.Own[i].Name = own.Name
				a.Own[i].Count += own.Count
				break
			}
		}
	}
	return a
}

// addNumbers adds the numbers of b to those of a, but for Limits and Own, which are not all counters.
func addNumbers(a, b reflect.Value) {
	switch {
	case a.CanInt():
		a.SetInt(a.Int() + b.Int())
	case a.CanUint():
		a.SetUint(a.Uint() + b.Uint())
	case a.Kind() == reflect.Array:
		for i := range a.Len() {
			addNumbers(a.Index(i), b.Index(i))
		}
	case a.Kind() == reflect.Struct:
		for i := range a.NumField() {
			if name := a.Type().Field(i).Name; name != "Limits" && name != "Own" {
				addNumbers(a.Field(i), b.Field(i))
			}
		}
	}
}

// Stats returns the counters. It may be called at any time.
func (s *Server) Stats() Stats {
	s.prepared.Do(s.prepare)
	st := s.count.now()
	st.Full = s.full.Load()
	s.readers.mu.Lock()
	st.Readers = len(s.readers.holders)
	s.readers.mu.Unlock()
	if !st.Starting {
		log := s.Log.Status()
		st.Connected, st.Disconnections = log.Connected, log.Disconnections
		if log.Left < math.MaxInt64 {
			st.LogSize, st.LogLeft = log.Size, &log.Left
		}
	}
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	c := &s.clock
	if c.started {
		s.readClock()
		st.LogTime, st.ClockAhead = time.UnixMilli(c.time).UTC(), time.Duration(c.wall-c.time)*time.Millisecond
	}
	st.ClockSteps, st.ClockOff = c.steps, c.off != 0
	if ran, ok := s.queue.oldest(); ok {
		st.Waiting = time.Duration(s.clock.running-ran) * time.Millisecond
	}
	st.Producers = s.producers.count
	st.Clients, st.Queued, st.QueuedSize = len(s.sessions.byClient), s.queue.records, s.queue.bytes
	return st
}

// ReaderState is a reader, or one share of it.
type ReaderState struct {
	Name       string        `json:"name"`
	Share      int           `json:"share"`
	Shares     int           `json:"shares"`
	Position   Position      `json:"position"` // acknowledged
	Generation uint64        `json:"generation"`
	Connected  bool          `json:"connected"`
	Away       time.Duration `json:"away_ns"`             // for how long it was not connected, of running time
	Expire     time.Duration `json:"expire_ns,omitempty"` // after that time away it no longer holds the log; 0: never
	Holds      bool          `json:"holds"`               // the log
	InFlight   uint64        `json:"in_flight_bytes"`     // sent, and not taken by the program yet

	// What it has not acknowledged, a few seconds ago: records, as if all were of the same size; bytes of the log,
	// roughly; and the age of the oldest record, in log time.
	LagRecords uint64        `json:"lag_records"`
	LagBytes   int64         `json:"lag_bytes"`
	LagAge     time.Duration `json:"lag_age_ns"`
}

// ReaderStates returns the readers in the order of their names.
func (s *Server) ReaderStates() []ReaderState {
	s.prepared.Do(s.prepare)
	s.queue.mu.Lock()
	running := s.clock.running
	s.queue.mu.Unlock()
	r := &s.readers
	r.mu.Lock()
	defer r.mu.Unlock()
	all := []ReaderState{}
	for _, p := range r.sorted() {
		st := ReaderState{
			Name: p.name, Share: int(p.share), Shares: int(p.of), Position: Position{Log: r.log, Number: p.number}, Generation: p.generation,
			Expire: time.Duration(max(cmp.Or(p.expire, r.expiry), 0)) * time.Millisecond, Holds: r.keeps(p, running),
			LagRecords: p.lag.records, LagBytes: p.lag.bytes, LagAge: p.lag.age,
		}
		if h := p.holder; h != nil {
			st.Connected, st.InFlight = true, h.sent-h.taken
		} else {
			st.Away = time.Duration(max(running-p.seen, 0)) * time.Millisecond
		}
		all = append(all, st)
	}
	return all
}

// SessionState is a client's session.
type SessionState struct {
	Client    string        `json:"client"`
	Epoch     uint64        `json:"epoch"`
	Last      uint64        `json:"last"` // newest record in the log
	Connected bool          `json:"connected"`
	Away      time.Duration `json:"away_ns"` // for how long it was not connected, of running time
}

// SessionStates returns up to most sessions of clients whose names begin with prefix and come after a name, in
// the order of the names.
func (s *Server) SessionStates(prefix, after string, most int) []SessionState {
	s.prepared.Do(s.prepare)
	s.queue.mu.Lock()
	names := slices.Collect(maps.Keys(s.sessions.byClient))
	s.queue.mu.Unlock()
	names = slices.DeleteFunc(names, func(name string) bool { return name <= after || !strings.HasPrefix(name, prefix) })
	slices.Sort(names)
	all := []SessionState{}
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	for _, name := range names[:min(len(names), max(most, 0))] {
		known := s.sessions.byClient[name]
		if known == nil {
			continue
		}
		st := SessionState{Client: name, Epoch: known.epoch, Last: known.durable.Load(), Connected: known.link != nil}
		if !st.Connected {
			st.Away = time.Duration(max(s.clock.running-known.seen, 0)) * time.Millisecond
		}
		all = append(all, st)
	}
	return all
}
