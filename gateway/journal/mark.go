package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	markName  = "mark"
	markSlots = 4096 // distance of the two slots: a torn write destroys at most one
	markSize  = 20   // generation, position, checksum
	markEvery = time.Second
)

// mark is the high-water mark: a file with a position that the log has reached. It is at most a
// second behind and never ahead, so a log that ends before it has lost envelopes.
type mark struct {
	f          *os.File
	generation uint64
	written    uint64 // position in the file

	pos    atomic.Uint64 // newest acknowledged position
	failed atomic.Pointer[error]
	ended  chan error // receives the error that ended run
	stop   chan struct{}
	done   sync.WaitGroup
}

func createMark(path string) error {
	b := make([]byte, 2*markSlots)
	copy(b, markSlot(1, 0))
	return writeSynced(path, b)
}

func markSlot(generation, pos uint64) []byte {
	b := binary.BigEndian.AppendUint64(nil, generation)
	b = binary.BigEndian.AppendUint64(b, pos)
	return binary.BigEndian.AppendUint32(b, checksum(b))
}

// openMark opens a mark. A missing file is damage, so openMark does not create it.
func openMark(path string, readOnly bool) (*mark, error) {
	mode := os.O_RDWR
	if readOnly {
		mode = os.O_RDONLY
	}
	f, err := os.OpenFile(path, mode, 0)
	if err == nil {
		m := &mark{f: f, ended: make(chan error, 1), stop: make(chan struct{})}
		for slot := range int64(2) {
			b := make([]byte, markSize)
			if _, err = f.ReadAt(b, slot*markSlots); err != nil {
				break
			}
			generation := binary.BigEndian.Uint64(b)
			if checksum(b[:16]) == binary.BigEndian.Uint32(b[16:]) && generation > m.generation {
				m.generation, m.written = generation, binary.BigEndian.Uint64(b[8:])
			}
		}
		if err == nil && m.generation > 0 {
			m.pos.Store(m.written)
			return m, nil
		}
		f.Close()
	}
	return nil, &Refusal{
		What:   fmt.Sprintf("the high-water mark %s cannot be read", path),
		Repair: withoutMark,
		Err:    err,
	}
}

const withoutMark = "restore the folder from a backup, or start once with --accept-loss mark: " +
	"whether acknowledged messages are missing at the end of the log is then not checked"

// run writes the position to the file every second until halt. It ends early if that fails, or if check
// does: it checks that the mark and the log are still the files at their paths.
func (m *mark) run(check func() error) {
	m.done.Go(func() {
		tick := time.NewTicker(markEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				err := check()
				if err == nil {
					err = m.save()
				}
				if err != nil {
					m.failed.Store(&err)
					m.ended <- m.err()
					return
				}
			case <-m.stop:
				return
			}
		}
	})
}

// save writes the position to the older slot, if it has changed.
func (m *mark) save() error {
	pos := m.pos.Load()
	if pos == m.written {
		return nil
	}
	m.generation++
	if _, err := m.f.WriteAt(markSlot(m.generation, pos), int64((m.generation+1)%2)*markSlots); err != nil {
		return err
	}
	m.written = pos
	return dataSync(m.f)
}

func (m *mark) err() error {
	if err := m.failed.Load(); err != nil {
		return fmt.Errorf("high-water mark: %w", *err)
	}
	return nil
}

// halt ends run and writes the position one last time.
func (m *mark) halt() error {
	close(m.stop)
	m.done.Wait()
	err := m.err()
	if err == nil {
		err = m.save()
	}
	return errors.Join(err, m.f.Close())
}
