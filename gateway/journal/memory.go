package journal

import (
	"bytes"
	"context"
)

// Memory is a Log in memory, for tests. The zero value is empty.
type Memory struct {
	turn      turn
	envelopes [][]byte
}

// Append stores a copy of envelope.
func (m *Memory) Append(ctx context.Context, envelope []byte) (uint64, error) {
	if err := m.turn.enter(ctx, envelope); err != nil {
		return 0, err
	}
	defer m.turn.mu.Unlock()
	m.envelopes = append(m.envelopes, bytes.Clone(envelope))
	return uint64(len(m.envelopes)), nil
}

// Read calls each for every envelope from position from.
func (m *Memory) Read(ctx context.Context, from uint64, each func(pos uint64, envelope []byte) error) error {
	m.turn.mu.Lock()
	all := m.envelopes
	m.turn.mu.Unlock()
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

// Bounds returns 1 and the next position.
func (m *Memory) Bounds() (first, next uint64, err error) {
	m.turn.mu.Lock()
	defer m.turn.mu.Unlock()
	return 1, uint64(len(m.envelopes)) + 1, nil
}

// Verify checks every envelope.
func (m *Memory) Verify(ctx context.Context, progress func(done, all uint64)) error {
	return verify(ctx, m, progress)
}

// Close makes Append fail. The stored envelopes can still be read.
func (m *Memory) Close() error {
	m.turn.shut()
	return nil
}
