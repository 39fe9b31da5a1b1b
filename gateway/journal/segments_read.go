package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
)

// Read calls each for every envelope from position from. A lost envelope ends it with a *Damage;
// a Read from the position after Damage.Last goes on.
func (l *Segments) Read(ctx context.Context, from uint64, each func(pos uint64, envelope []byte) error) error {
	l.mu.Lock()
	all, slots, next := l.all, l.slots, l.next
	last := *all[len(all)-1]
	l.mu.Unlock()
	first := all[0].first
	switch {
	case from == 0:
		from = first
	case from < first:
		return &TrimmedError{first}
	}
	for from < next {
		for _, d := range l.missing {
			if d.First <= from && from <= d.Last {
				return &Damage{First: from, Last: d.Last, Err: d.Err}
			}
		}
		i, exact := slices.BinarySearchFunc(all, from, func(s *segment, pos uint64) int { return cmp.Compare(s.first, pos) })
		if !exact {
			i--
		}
		s, known := &last, slots
		if i < len(all)-1 || last.sealed {
			s, known = all[i], nil
		}
		if err := l.readSegment(ctx, s, known, from, each); err != nil {
			return err
		}
		from = s.next
	}
	return nil
}

// Follow is Read: nobody else appends to the log.
func (l *Segments) Follow(ctx context.Context, from uint64, each func(pos uint64, envelope []byte) error) error {
	return l.Read(ctx, from, each)
}

// readSegment calls each for the envelopes of one segment from position from. known are the slots of one
// that is not sealed.
func (l *Segments) readSegment(ctx context.Context, s *segment, known []slot, from uint64, each func(uint64, []byte) error) error {
	f, err := os.Open(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		if first, _, _ := l.Bounds(); l.readOnly || first > from {
			return &TrimmedError{max(first, s.next)}
		}
		return &Damage{First: from, Last: s.next - 1, File: s.path, Err: err}
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if known == nil {
		if known, err = l.indexOf(s, f); err != nil {
			return err
		}
	}
	limit := s.size
	if s.end > 0 {
		limit = s.end
	}
	w := window{f: f, limit: limit}
	for pos := from; pos < s.next; pos++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		at := known[pos-s.first]
		envelope, err := w.envelope(at, pos, &l.id)
		if errors.As(err, new(*Refusal)) { // it has another version
			return err
		}
		if err != nil {
			d := &Damage{First: pos, Last: pos, File: s.path, Offset: int64(at.at), Clients: clientsIn(envelope), Err: err}
			for d.Last+1 < s.next && known[d.Last+1-s.first] == at {
				d.Last++
			}
			return d
		}
		if err := each(pos, envelope); err != nil {
			return err
		}
	}
	return nil
}

// index are the slots of a sealed segment.
type index struct {
	of    *segment
	slots []slot
}

// keptIndexes is of how many segments a log keeps the slots, 2 MiB each at most: readers that are behind read a
// segment a little at a time, and one without its index has to be scanned.
const keptIndexes = 4

// indexOf is readIndex for a segment that may have been read a moment ago.
func (l *Segments) indexOf(s *segment, f *os.File) ([]slot, error) {
	l.mu.Lock()
	all := l.read
	l.mu.Unlock()
	if i := slices.IndexFunc(all, func(x index) bool { return x.of == s }); i >= 0 {
		return all[i].slots, nil
	}
	known, _, err := s.readIndex(f, &l.id)
	if err == nil {
		l.mu.Lock()
		l.read = append([]index{{s, known}}, l.read[:min(len(l.read), keptIndexes-1)]...)
		l.mu.Unlock()
	}
	return known, err
}

// envelope returns the envelope in a slot, and its bytes even if they are damaged.
func (w *window) envelope(at slot, pos uint64, id *logID) ([]byte, error) {
	if at.at == 0 {
		return nil, errMissing
	}
	b, err := w.frame(int64(at.at), pos, id)
	switch {
	case (err == nil || err == errHead) && sumOf(b) == at.sum:
		return b, nil
	case err == nil || err == errHead || err == errEnvelope || err == errNoFrame:
		return b, errEnvelope
	}
	return nil, err
}

// Measure measures the log. Trim can delete up to where a segment begins.
func (l *Segments) Measure(context.Context) (func(pos uint64) (begins uint64, after int64), error) {
	l.mu.Lock()
	all := slices.Clone(l.all)
	last := *all[len(all)-1]
	l.mu.Unlock()
	all[len(all)-1] = &last
	return func(pos uint64) (begins uint64, after int64) {
		for i := len(all) - 1; i >= 0; i-- {
			s := all[i]
			if after += s.size; s.first <= pos || i == 0 {
				if pos = min(pos, s.next); pos > s.first {
					after -= int64(float64(s.size) * float64(pos-s.first) / float64(s.next-s.first))
				}
				return s.first, after
			}
		}
		return pos, after
	}, nil
}

// Verify reads and checks every envelope, and the headers, trailers and indexes.
func (l *Segments) Verify(ctx context.Context, rate int64, progress func(done, all uint64)) error {
	damage := errors.Join(l.unmarked, VerifyReads(ctx, l, rate, progress))
	if ctx.Err() != nil {
		return damage
	}
	l.mu.Lock()
	all := l.all
	l.mu.Unlock()
	for i, s := range all {
		err := s.lost // found at the start
		if i < len(all)-1 || s.sealed {
			err = s.checkIndex(&l.id)
		}
		damage = errors.Join(damage, err)
	}
	return damage
}

// checkIndex returns an error if something of a sealed segment is damaged that Read does not need.
func (s *segment) checkIndex(id *logID) error {
	f, err := os.Open(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	again := segment{path: s.path, first: s.first, size: s.size}
	if _, err := again.readHeader(f, id); err != nil {
		return fmt.Errorf("journal: %s: %w; nothing is lost", s.path, err)
	}
	if !again.readTrailer(f, id) {
		return fmt.Errorf("journal: %s: its trailer is damaged; nothing is lost", s.path)
	}
	if _, damaged, err := again.readIndex(f, id); damaged {
		return errors.Join(fmt.Errorf("journal: %s: its index is damaged; nothing is lost", s.path), err)
	}
	return nil
}
