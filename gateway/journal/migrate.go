package journal

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
)

// MigrateOptions are the settings of Migrate. The zero value works.
type MigrateOptions struct {
	// AcceptLoss are positions whose envelopes may be lost. Migrate refuses a log that has lost others.
	AcceptLoss Range
	// Progress is called with the progress of each pass over the log: "copied", then "compared". nil
	// means no call.
	Progress func(what string, done, all uint64)
	// Logger gets what is damaged or torn. nil means no logging.
	Logger *slog.Logger

	step func(what string) error // a test's; called before each change that a crash may divide from the next
}

// Migration is the result of Migrate.
type Migration struct {
	Envelopes uint64 `json:"envelopes"` // that were copied
	First     uint64 `json:"first"`     // position; the same as before
	Last      uint64 `json:"last"`      // position; before First if the log is empty
	Lost      uint64 `json:"lost"`      // envelopes that were lost before, as AcceptLoss allows
	Old       string `json:"old"`       // folder with the old log; "": there was nothing to do
}

// migration works in one folder, because it may be a mount point. The new log's segments are beside the old log.
// The file migratingName is the first thing there and the last one to go, and no honed of this version opens the
// folder meanwhile. A crash leaves one of these states, from which the next run goes on:
//
//   - The old log is in its place: the segments are deleted and begun again, since an earlier honed may have
//     appended meanwhile.
//   - Some of the old log is in oldName: the new one was verified, as migratingName says, and the move goes on.
//
// An earlier honed refuses a folder with a mark and without READY. So no honed begins an empty log in any of
// them: READY goes first, and the mark stays.
type migration struct {
	Migration
	dir string
	o   MigrateOptions
}

// step is a change that a crash may divide from the next one.
type step struct {
	what string
	do   func() error
}

// Migrate turns the log of an earlier version in the folder dir into Segments. Positions stay the same.
// The old log is kept in the folder old in dir. If Migrate is interrupted, run it again: it goes on.
func Migrate(ctx context.Context, dir string, o MigrateOptions) (*Migration, error) {
	m := &migration{dir: dir, o: o}
	m.o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if err := m.run(ctx); err != nil {
		return nil, about("migrate "+dir, err)
	}
	return &m.Migration, nil
}

func (m *migration) run(ctx context.Context) error {
	if !hasOld(m.dir) && !exists(m.dir, migratingName) {
		if err := refuseEmpty(m.dir); err != nil {
			return err
		}
	}
	unlock, err := lockAll(m.dir)
	defer unlock()
	if err != nil {
		return err
	}
	b, err := os.ReadFile(m.path(migratingName))
	begun := err == nil
	verified := begun && json.Unmarshal(b, &m.Migration) == nil
	switch {
	case verified && (hasOld(m.path(oldName)) || !hasOld(m.dir)):
		return m.move()
	case hasOld(m.dir):
		if err := m.copy(ctx, begun); err != nil {
			return err
		}
		return m.move()
	case begun:
		return &Refusal{
			What:   fmt.Sprintf("%s has no old log, and the new one was not verified", m.dir),
			Repair: "put the old log back, or restore the folder from a backup",
		}
	}
	log, err := OpenReader(ctx, m.dir, m.o.Logger)
	if err != nil {
		return err
	}
	return log.Close()
}

// steps does one step after the other, until one fails.
func (m *migration) steps(all ...step) error {
	for _, s := range all {
		if m.o.step != nil {
			if err := m.o.step(s.what); err != nil {
				return err
			}
		}
		if err := s.do(); err != nil {
			return err
		}
	}
	return nil
}

func (m *migration) path(names ...string) string {
	return filepath.Join(append([]string{m.dir}, names...)...)
}

// lockAll locks what each version locks.
func lockAll(dir string) (unlock func(), err error) {
	var locks []*os.File
	unlock = func() {
		for _, f := range locks {
			f.Close()
		}
	}
	keep := func(f *os.File, err error) error {
		if err == nil {
			locks = append(locks, f)
		}
		return err
	}
	lock := filepath.Join(dir, lockName)
	if err = keep(takeFolder(dir)); err == nil {
		err = keep(takeLock(lock))
	}
	if err == nil && exists(dir, plainName) {
		err = keep(takeLock(filepath.Join(dir, plainLock)))
	}
	if err == nil && exists(dir, markName) {
		if err = keep(os.OpenFile(filepath.Join(dir, markName), os.O_RDWR, 0)); err == nil {
			err = exclude(locks[len(locks)-1], lock)
		}
	}
	return unlock, err
}

// copy makes the new log, beside the old one, and verifies it. If it fails, it leaves nothing. begun says that
// segments may be there.
func (m *migration) copy(ctx context.Context, begun bool) (err error) {
	for _, name := range []string{readyName, storeName, markName, plainName, plainLock} {
		if exists(m.path(oldName), name) {
			return &Refusal{What: m.path(oldName, name) + " exists", Repair: "move it away: the old log will be kept there"}
		}
	}
	l := &Segments{dir: m.dir, readOnly: true, unsynced: true, mark: &mark{}, o: SegmentsOptions{Logger: m.o.Logger, size: segmentBytes}}
	if begun {
		err = m.discard(l)
	} else if found, failed := l.segments(); failed != nil || len(found) > 0 {
		return errors.Join(failed, &Refusal{
			What:   m.dir + " has segments of a new log and an old log",
			Repair: "move one of them into a folder of its own",
		})
	}
	if err != nil {
		return err
	}
	old, err := openOld(ctx, m.dir, m.o.Logger, m.o.AcceptLoss)
	if err != nil {
		return err
	}
	if err := m.space(old); err != nil {
		return err
	}
	defer func() {
		if l.release(); err != nil {
			m.discard(l)
		}
	}()
	return m.steps(step{"copy", func() error {
		if err := writeSynced(m.path(migratingName), nil); err != nil {
			return err
		}
		return m.fill(ctx, l, old)
	}}, step{"compare", func() error {
		if err := l.find(); err != nil { // as the next start does
			return err
		}
		return compare(ctx, old, l, m.First, m.Last+1, m.o.Progress)
	}}, step{"mark as verified", func() error {
		if exists(m.dir, plainName) { // else the old mark will do
			if err := createMark(m.path(markName), l.next-1); err != nil {
				return err
			}
		}
		b, err := json.Marshal(m.Migration)
		if err != nil {
			return err
		}
		return writeSynced(m.path(migratingName), b)
	}})
}

// discard deletes a new log that is not verified.
func (m *migration) discard(l *Segments) error {
	all, err := l.segments()
	for _, s := range all {
		err = errors.Join(err, os.Remove(s.path))
	}
	if err == nil {
		err = syncDir(m.dir)
	}
	if err == nil {
		err = os.Remove(m.path(migratingName))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// space refuses a disk that has no room for a second log.
func (m *migration) space(old *oldLog) error {
	need := int64(1 << 20)
	for _, p := range old.parts {
		need += p.to
	}
	if !old.format.numbered { // JetStream's records cost more
		need += int64(old.next) * (frameHead + slotSize)
	}
	if free, err := freeSpace(m.dir); err == nil && free < uint64(need) {
		return fmt.Errorf("%w: it needs %d bytes beside the old log, and the disk of %s has %d bytes free", ErrNoSpace, need, m.dir, free)
	}
	return nil
}

// fill copies the old log to l and makes it durable. It refuses losses that are not accepted, when it has named
// them all.
func (m *migration) fill(ctx context.Context, l *Segments, old Reader) error {
	first, next, err := old.Bounds()
	if err != nil {
		return err
	}
	rand.Read(l.id[:])
	l.next = first
	if err := l.begin(&segment{next: first}); err != nil {
		return err
	}
	m.Migration = Migration{First: first, Last: next - 1, Old: m.path(oldName)}
	var refused, worst *Damage
	var lost []uint64
	base := uint64(0)
	err = copyRange(ctx, old, first, next, func(pos uint64, envelope []byte) error {
		m.Envelopes++
		if m.o.Progress != nil {
			m.o.Progress("copied", pos+1-first, next-first)
		}
		if refused != nil {
			return nil // only to name the other losses
		}
		if e, err := header(envelope); err == nil {
			base = e.Base
		}
		return l.store(envelope)
	}, func(d *Damage) error {
		m.o.Logger.Error("the old log is damaged", "err", d)
		m.Lost += d.Last + 1 - d.First
		if !m.o.AcceptLoss.Has(d) {
			worst, refused = d, cmp.Or(refused, d)
		}
		if refused != nil {
			return nil
		}
		for pos := d.First; pos <= d.Last; pos++ {
			lost = append(lost, pos)
		}
		return l.lose(d.Last)
	})
	switch {
	case err != nil:
		return err
	case refused != nil:
		return &Refusal{
			What: fmt.Sprintf("%d envelopes of the old log in %s are lost", m.Lost, m.dir),
			Repair: fmt.Sprintf("restore it from a backup, or go on without them: honed migrate --data %s --accept-loss %d-%d",
				m.dir, refused.First, worst.Last),
			Err: refused,
		}
	}
	if err := l.bury(lost, base); err != nil || len(l.slots) == 0 {
		return err
	}
	_, err = l.seal()
	return err
}

// lose adds the lost envelopes up to a position.
func (l *Segments) lose(last uint64) error {
	for l.next <= last {
		if len(l.slots) >= segmentFrames {
			sealed, err := l.seal()
			if err == nil {
				err = l.begin(sealed)
			}
			if err != nil {
				return err
			}
		}
		l.slots = append(l.slots, slot{})
		l.next++
		l.last().next = l.next
	}
	return nil
}

// bury writes down that an operator has accepted what is lost, as a start with --accept-loss does. base is that
// of the newest envelope.
func (l *Segments) bury(lost []uint64, base uint64) error {
	const most = (MaxEnvelope - headerSize - trailerSize) / (headSize + 8)
	for some := range slices.Chunk(lost, most) {
		var e Encoder
		e.Begin(base)
		for _, pos := range some {
			if err := e.Tombstone(pos); err != nil {
				return err
			}
		}
		if err := l.store(e.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// move moves the old files away.
func (m *migration) move() error {
	old := m.path(oldName)
	steps := []step{{"make a folder for the old log", func() error {
		return errors.Join(os.MkdirAll(old, 0o700), syncDir(m.dir))
	}}}
	for _, name := range []string{readyName, storeName, plainName, plainLock} {
		if exists(m.dir, name) {
			steps = append(steps, step{"move " + name, func() error {
				if err := os.Rename(m.path(name), filepath.Join(old, name)); err != nil {
					return err
				}
				return errors.Join(syncDir(old), syncDir(m.dir))
			}})
		}
	}
	if exists(m.dir, storeName) || exists(old, storeName) {
		steps = append(steps, step{"copy mark", m.keepMark})
	}
	return m.steps(append(steps, step{"remove " + migratingName, func() error {
		if err := os.Remove(m.path(migratingName)); err != nil {
			return err
		}
		return syncDir(m.dir)
	}})...)
}

// keepMark copies the mark, which the new log goes on with: if it moved, an earlier honed would make an empty log in
// the folder.
func (m *migration) keepMark() error {
	b, err := os.ReadFile(m.path(markName))
	if err != nil {
		return err
	}
	return writeSynced(m.path(oldName, markName), b)
}
