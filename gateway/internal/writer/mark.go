package writer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	MarkName  = "mark" // of its file
	MarkSlots = 4096   // distance of the two slots: a torn write destroys at most one
	MarkSize  = 20     // generation, position, checksum
	markEvery = time.Second
)

// Mark is the high-water mark: a file with a position that the log has reached. It is at most a
// second behind and never ahead, so a log that ends before it has lost envelopes.
type Mark struct {
	File       *os.File
	Written    uint64        // position in the file
	Position   atomic.Uint64 // newest acknowledged position
	Ended      chan error    // receives the error that ended Run
	generation uint64

	failed atomic.Pointer[error]
	stop   chan struct{}
	done   sync.WaitGroup
}

// CreateMark makes a mark that says that nothing is known to be durable.
func CreateMark(path string) error {
	b := make([]byte, 2*MarkSlots)
	copy(b, MarkSlot(1, 0))
	return WriteSynced(path, b)
}

// MarkSlot returns what a slot of the file has.
func MarkSlot(generation, pos uint64) []byte {
	b := binary.BigEndian.AppendUint64(nil, generation)
	b = binary.BigEndian.AppendUint64(b, pos)
	return binary.BigEndian.AppendUint32(b, checksum(b))
}

// OpenMark opens a mark. A missing file is damage, so OpenMark does not create it.
func OpenMark(path string, readOnly bool) (*Mark, error) {
	mode := os.O_RDWR
	if readOnly {
		mode = os.O_RDONLY
	}
	f, err := os.OpenFile(path, mode, 0)
	if err == nil {
		m := &Mark{File: f, Ended: make(chan error, 1), stop: make(chan struct{})}
		for slot := range int64(2) {
			b := make([]byte, MarkSize)
			if _, err = f.ReadAt(b, slot*MarkSlots); err != nil {
				break
			}
			generation := binary.BigEndian.Uint64(b)
			if checksum(b[:16]) == binary.BigEndian.Uint32(b[16:]) && generation > m.generation {
				m.generation, m.Written = generation, binary.BigEndian.Uint64(b[8:])
			}
		}
		if err == nil && m.generation > 0 {
			m.Position.Store(m.Written)
			return m, nil
		}
		f.Close()
	}
	return nil, &Refusal{
		What:   fmt.Sprintf("the high-water mark %s cannot be read", path),
		Repair: WithoutMark,
		Err:    err,
	}
}

// WithoutMark says what to do without a mark.
const WithoutMark = "restore the folder from a backup, or copy it with honed backup and use the copy: " +
	"whether acknowledged messages are missing at the end of the log is then not checked"

// Run writes the position to the file every second until Halt. It ends early if that fails, or if check
// does: it checks that the mark and the log are still the files at their paths.
func (m *Mark) Run(check func() error) {
	m.done.Go(func() {
		tick := time.NewTicker(markEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				err := check()
				if err == nil {
					err = m.Save()
				}
				if err != nil {
					m.failed.Store(&err)
					m.Ended <- m.Err()
					return
				}
			case <-m.stop:
				return
			}
		}
	})
}

// Save writes the position to the older slot, if it has changed.
func (m *Mark) Save() error {
	pos := m.Position.Load()
	if pos == m.Written {
		return nil
	}
	m.generation++
	if _, err := m.File.WriteAt(MarkSlot(m.generation, pos), int64((m.generation+1)%2)*MarkSlots); err != nil {
		return err
	}
	m.Written = pos
	return DataSync(m.File)
}

// Err returns why Run has ended, or nil.
func (m *Mark) Err() error {
	if err := m.failed.Load(); err != nil {
		return fmt.Errorf("high-water mark: %w", *err)
	}
	return nil
}

// Halt ends Run and writes the position one last time.
func (m *Mark) Halt() error {
	close(m.stop)
	m.done.Wait()
	err := m.Err()
	if err == nil {
		err = m.Save()
	}
	return errors.Join(err, m.File.Close())
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }
