package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/hone-go/hone/gateway/journal"
)

// Memory is a journal.Log in memory, which several servers may share. The zero value is empty.
type Memory struct {
	mu        sync.Mutex
	closed    bool
	trimmed   int
	envelopes [][]byte        // behind the trimmed ones
	waiting   []chan struct{} // closed by the next Append
}

// Append stores a copy of envelope.
func (m *Memory) Append(ctx context.Context, envelope []byte) (uint64, error) {
	if _, err := journal.Decode(envelope); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return 0, journal.ErrClosed
	case ctx.Err() != nil:
		return 0, ctx.Err()
	}
	m.envelopes = append(m.envelopes, bytes.Clone(envelope))
	m.wake()
	return uint64(m.trimmed + len(m.envelopes)), nil
}

// Read calls each for every envelope from position from.
func (m *Memory) Read(ctx context.Context, from uint64, each func(pos uint64, envelope []byte) error) error {
	m.mu.Lock()
	all, first := m.envelopes, uint64(m.trimmed)+1
	m.mu.Unlock()
	if from > 0 && from < first {
		return &journal.TrimmedError{First: first}
	}
	for pos := max(from, first); pos < first+uint64(len(all)); pos++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := each(pos, all[pos-first]); err != nil {
			return err
		}
	}
	return nil
}

// Follow is Read.
func (m *Memory) Follow(ctx context.Context, from uint64, each func(pos uint64, envelope []byte) error) error {
	return m.Read(ctx, from, each)
}

// AppendReserved returns ErrNoSpace: there is no reserve.
func (m *Memory) AppendReserved(context.Context, []byte) (uint64, error) {
	return 0, journal.ErrNoSpace
}

// Status says that there is room for everything.
func (m *Memory) Status() journal.Status { return journal.Status{Left: math.MaxInt64} }

// Failed returns nil: it never fails.
func (m *Memory) Failed() <-chan error { return nil }

// Bounds returns the first position and the next one.
func (m *Memory) Bounds() (first, next uint64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return uint64(m.trimmed) + 1, uint64(m.trimmed+len(m.envelopes)) + 1, nil
}

// Measure is as of Segments, with a segment for each envelope.
func (m *Memory) Measure(context.Context) (func(pos uint64) (begins uint64, after int64), error) {
	m.mu.Lock()
	all, first := m.envelopes, uint64(m.trimmed)+1
	m.mu.Unlock()
	return func(pos uint64) (begins uint64, after int64) {
		for i := max(pos, first) - first; i < uint64(len(all)); i++ {
			after += int64(len(all[i]))
		}
		return pos, after
	}, nil
}

// Verify checks every envelope.
func (m *Memory) Verify(ctx context.Context, _ int64, _ func(done, all uint64)) (damage error) {
	err := m.Read(ctx, 0, func(pos uint64, envelope []byte) error {
		if _, err := journal.Decode(envelope); err != nil {
			damage = errors.Join(damage, fmt.Errorf("position %d: %w", pos, err))
		}
		return nil
	})
	return errors.Join(damage, err)
}

// Wait returns when the envelope at position pos is stored.
func (m *Memory) Wait(ctx context.Context, pos uint64) error {
	for {
		m.mu.Lock()
		stored, closed := uint64(m.trimmed+len(m.envelopes)) >= pos, m.closed
		grown := make(chan struct{})
		if !stored && !closed {
			m.waiting = append(m.waiting, grown)
		}
		m.mu.Unlock()
		switch {
		case stored:
			return nil
		case closed:
			return journal.ErrClosed
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// wake wakes all that Wait. The caller has locked m.mu.
func (m *Memory) wake() {
	for _, grown := range m.waiting {
		close(grown)
	}
	m.waiting = nil
}

// Trim deletes the envelopes before position to.
func (m *Memory) Trim(_ context.Context, to uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := min(int(to)-1-m.trimmed, len(m.envelopes)); n > 0 {
		m.envelopes, m.trimmed = slices.Clone(m.envelopes[n:]), m.trimmed+n
	}
	return nil
}

// Close makes Append fail. The stored envelopes can still be read.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	m.wake()
	return nil
}
