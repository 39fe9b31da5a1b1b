package journal

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
)

// File is a Log in one plain file: it appends each envelope and calls fdatasync. It is the
// baseline of the benchmarks and the oracle of the tests, and has no replicas, no retention and
// no high-water mark.
type File struct {
	turn turn
	f    *os.File
	lock *os.File
	sync func(*os.File) error

	mu     sync.Mutex
	starts []int64 // offset of each envelope, and of the next one
}

// OpenFile opens or creates the log in the file path, and locks it. It reads the whole file, and
// truncates an incomplete envelope at the end, which cannot have been acknowledged.
func OpenFile(path string) (*File, error) { return openFile(path, dataSync) }

// openFile lets a test leave out the fsync.
func openFile(path string, sync func(*os.File) error) (*File, error) {
	lock, err := takeLock(path + ".lock")
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		lock.Close()
		return nil, fmt.Errorf("journal: %w", err)
	}
	log := &File{f: f, lock: lock, sync: sync}
	if err := log.recover(path); err != nil {
		f.Close()
		lock.Close()
		return nil, err
	}
	return log, nil
}

// recover finds the envelopes and truncates an incomplete last one.
func (l *File) recover(path string) error {
	info, err := l.f.Stat()
	if err != nil {
		return err
	}
	at, size := int64(0), info.Size()
	l.starts = []int64{0}
	buf := make([]byte, 0, MaxEnvelope)
	for at < size {
		buf = buf[:min(int64(MaxEnvelope), size-at)]
		if _, err := l.f.ReadAt(buf, at); err != nil {
			return err
		}
		length, err := envelopeLength(buf)
		if err != nil {
			if err := l.checkTail(at, size, err); err != nil {
				return err
			}
			break
		}
		at += int64(length)
		l.starts = append(l.starts, at)
	}
	if at < size {
		if err := l.f.Truncate(at); err != nil {
			return err
		}
	}
	// A killed process may have left envelopes in the page cache without an fsync. Readers may
	// acknowledge them from now on, so make them durable.
	if err := l.sync(l.f); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// envelopeLength returns the length of the envelope at the front of b.
func envelopeLength(b []byte) (int, error) {
	if len(b) < headerSize+trailerSize {
		return 0, io.ErrUnexpectedEOF
	}
	length := int64(headerSize) + int64(binary.BigEndian.Uint32(b[12:])) + trailerSize
	if length > int64(len(b)) {
		return 0, io.ErrUnexpectedEOF
	}
	_, err := Decode(b[:length])
	return int(length), err
}

// checkTail accepts the rest of the file from offset at as one interrupted write. It returns a
// Refusal if an envelope follows, because then the file is damaged.
func (l *File) checkTail(at, size int64, cause error) error {
	damaged := &Refusal{
		What:   fmt.Sprintf("%s is damaged at byte %d, and envelopes follow", l.f.Name(), at),
		Repair: "restore the file from a backup",
		Err:    cause,
	}
	if size-at > MaxEnvelope {
		return damaged
	}
	rest := make([]byte, size-at)
	if _, err := l.f.ReadAt(rest, at); err != nil {
		return err
	}
	for i := 1; i < len(rest); i++ {
		next := bytes.Index(rest[i:], []byte(magic))
		if next < 0 {
			return nil
		}
		i += next
		if _, err := envelopeLength(rest[i:]); err == nil {
			return damaged
		}
	}
	return nil
}

// Append writes an envelope at the end of the file and waits for fdatasync.
func (l *File) Append(ctx context.Context, envelope []byte) (uint64, error) {
	if err := l.turn.enter(ctx, envelope); err != nil {
		return 0, err
	}
	defer l.turn.mu.Unlock()
	next := len(l.starts) // without l.mu: only Append writes it, under turn.mu
	at := l.starts[next-1]
	_, err := l.f.WriteAt(envelope, at)
	if err == nil {
		err = l.sync(l.f)
	}
	if err != nil {
		return 0, l.turn.breaks(err)
	}
	l.mu.Lock()
	l.starts = append(l.starts, at+int64(len(envelope)))
	l.mu.Unlock()
	return uint64(next), nil
}

// Read calls each for every envelope from position from.
func (l *File) Read(ctx context.Context, from uint64, each func(pos uint64, envelope []byte) error) error {
	l.mu.Lock()
	starts := l.starts
	l.mu.Unlock()
	var buf []byte
	for pos := max(from, 1); pos < uint64(len(starts)); pos++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		length := starts[pos] - starts[pos-1]
		buf = append(buf[:0], make([]byte, length)...)
		if _, err := l.f.ReadAt(buf, starts[pos-1]); err != nil {
			if errors.Is(err, os.ErrClosed) {
				return ErrClosed
			}
			return fmt.Errorf("journal: %w", err)
		}
		if err := each(pos, buf); err != nil {
			return err
		}
	}
	return nil
}

// Bounds returns 1 and the next position.
func (l *File) Bounds() (first, next uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return 1, uint64(len(l.starts)), nil
}

// Verify reads the file again and checks every envelope.
func (l *File) Verify(ctx context.Context, progress func(done, all uint64)) error {
	return verify(ctx, l, progress)
}

// Close closes the file and releases its lock.
func (l *File) Close() error {
	if !l.turn.shut() {
		return nil
	}
	err := l.f.Close()
	l.lock.Close()
	return err
}
