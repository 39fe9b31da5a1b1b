package journal

import (
	"bytes"
	"context"
)

// Memory is a Log in memory, for tests. The zero value is empty.
type Memory struct {
	turn      turn
	trimmed   int
	envelopes [][]byte
	waiting   []chan struct{} // closed by the next Append
}

// Append stores a copy of envelope.
func (m *Memory) Append(ctx context.Context, envelope []byte) (uint64, error) {
	if err := m.turn.enter(ctx, envelope); err != nil {
		return 0, err
	}
	defer m.turn.mu.Unlock()
	m.envelopes = append(m.envelopes, bytes.Clone(envelope))
	m.wake()
	return uint64(len(m.envelopes)), nil
}

// Read calls each for every envelope from position from.
func (m *Memory) Read(ctx context.Context, from uint64, each func(pos uint64, envelope []byte) error) error {
	m.turn.mu.Lock()
	all, first := m.envelopes, uint64(m.trimmed)+1
	m.turn.mu.Unlock()
	if from > 0 && from < first {
		return &TrimmedError{first}
	}
	from = max(from, first)
	for i := max(from, 1) - 1; i < uint64(len(all)); i++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := each(i+1, all[i]); err != nil {
			return err
		}
	}
	return nil
}

// Bounds returns the first position and the next one.
func (m *Memory) Bounds() (first, next uint64, err error) {
	m.turn.mu.Lock()
	defer m.turn.mu.Unlock()
	return uint64(m.trimmed) + 1, uint64(len(m.envelopes)) + 1, nil
}

// Measure is as of Segments, with a segment for each envelope.
func (m *Memory) Measure(context.Context) (func(pos uint64) (begins uint64, after int64), error) {
	m.turn.mu.Lock()
	all := m.envelopes
	m.turn.mu.Unlock()
	return func(pos uint64) (begins uint64, after int64) {
		for i := max(pos, 1) - 1; i < uint64(len(all)); i++ {
			after += int64(len(all[i]))
		}
		return pos, after
	}, nil
}

// Verify checks every envelope.
func (m *Memory) Verify(ctx context.Context, rate int64, progress func(done, all uint64)) error {
	return verify(ctx, m, rate, progress)
}

// Wait returns when the envelope at position pos is stored.
func (m *Memory) Wait(ctx context.Context, pos uint64) error {
	for {
		m.turn.mu.Lock()
		stored, closed := uint64(len(m.envelopes)) >= pos, m.turn.closed
		grown := make(chan struct{})
		if !stored && !closed {
			m.waiting = append(m.waiting, grown)
		}
		m.turn.mu.Unlock()
		switch {
		case stored:
			return nil
		case closed:
			return ErrClosed
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// wake wakes all that Wait. The caller has locked m.turn.mu.
func (m *Memory) wake() {
	for _, grown := range m.waiting {
		close(grown)
	}
	m.waiting = nil
}

// Trim deletes the envelopes before position to.
func (m *Memory) Trim(_ context.Context, to uint64) error {
	m.turn.mu.Lock()
	defer m.turn.mu.Unlock()
	m.trimmed = max(m.trimmed, min(int(to)-1, len(m.envelopes)))
	return nil
}

// Close makes Append fail. The stored envelopes can still be read.
func (m *Memory) Close() error {
	m.turn.shut()
	m.turn.mu.Lock()
	defer m.turn.mu.Unlock()
	m.wake()
	return nil
}
