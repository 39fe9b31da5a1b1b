package journal

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"
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
	if s.foreign {
		known = make([]slot, s.next-s.first)
	}
	if known == nil {
		if known, _, err = s.readIndex(f, &l.id); err != nil {
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
		envelope, err := w.envelope(at)
		if err != nil {
			d := &Damage{First: pos, Last: pos, File: s.path, Offset: int64(at.at), Clients: clientsIn(envelope), Err: err}
			for at.at == 0 && d.Last+1 < s.next && known[d.Last+1-s.first].at == 0 {
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

// envelope returns the envelope in a slot, and its bytes even if they are damaged.
func (w *window) envelope(at slot) ([]byte, error) {
	if at.at == 0 {
		return nil, errMissing
	}
	b, err := w.bytes(int64(at.at), frameHead+headerSize)
	if err != nil || len(b) < frameHead+headerSize {
		return nil, cmp.Or(err, errMissing)
	}
	damaged := []byte(nil)
	inHead, inEnvelope := int(binary.BigEndian.Uint32(b)), headerSize+int(binary.BigEndian.Uint32(b[frameHead+12:]))+trailerSize
	for _, length := range []int{inHead, inEnvelope} { // either may be damaged
		if length > MaxEnvelope {
			continue
		}
		b, err = w.bytes(int64(at.at)+frameHead, int64(length))
		if err != nil {
			return nil, err
		}
		if sum, ok := whole(b); ok && sum == at.sum {
			return b, nil
		}
		if damaged == nil {
			damaged = b
		}
	}
	return damaged, errEnvelope
}

// Verify reads and checks every envelope, and the headers, trailers and indexes. Its error joins all
// damage, a *Damage for each lost envelope.
func (l *Segments) Verify(ctx context.Context, progress func(done, all uint64)) error {
	return l.VerifySlowly(ctx, 0, progress)
}

// VerifySlowly is Verify at most at a rate in bytes per second; 0: as fast as possible.
func (l *Segments) VerifySlowly(ctx context.Context, rate int64, progress func(done, all uint64)) error {
	first, next, err := l.Bounds()
	if err != nil {
		return err
	}
	began, read := time.Now(), int64(0)
	var damage []error
	found := 0
	lost := func(d *Damage) error {
		if found++; found <= mostDamage {
			damage = append(damage, d)
		}
		return nil
	}
	err = readPast(ctx, l, first, func(pos uint64, envelope []byte) error {
		if _, err := Decode(envelope); err != nil {
			lost(&Damage{First: pos, Last: pos, Err: err})
		}
		if done := pos + 1 - first; progress != nil && done%progressStep == 0 {
			progress(done, next-first)
		}
		if read += int64(len(envelope)) + frameHead; rate > 0 {
			if ahead := time.Duration(float64(read)/float64(rate)*float64(time.Second)) - time.Since(began); ahead > verifyStep {
				return pause(ctx, ahead)
			}
		}
		return nil
	}, lost)
	if err != nil {
		return err
	}
	if found > mostDamage {
		damage = append(damage, fmt.Errorf("journal: and %d more", found-mostDamage))
	}
	l.mu.Lock()
	all := l.all
	l.mu.Unlock()
	for i, s := range all {
		err := s.lost // found at the start
		if i < len(all)-1 || s.sealed {
			err = s.checkIndex(&l.id)
		}
		if err != nil {
			damage = append(damage, err)
		}
	}
	if progress != nil {
		progress(next-first, next-first)
	}
	return errors.Join(damage...)
}

// mostDamage is how much damage one Verify names.
const mostDamage = 100

// readPast is Log.Read, but goes on after lost envelopes once it has called lost.
func readPast(ctx context.Context, log Log, from uint64, each func(pos uint64, envelope []byte) error, lost func(*Damage) error) error {
	for {
		err := log.Read(ctx, from, each)
		var d *Damage
		if !errors.As(err, &d) {
			return err
		}
		if err := lost(d); err != nil {
			return err
		}
		from = d.Last + 1
	}
}

// verifyStep is how far VerifySlowly may be ahead of its rate.
const verifyStep = 50 * time.Millisecond

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
