package journal

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
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

// verifiedName is in migratingName: the new log equals the old one.
const verifiedName = "verified"

// migration moves the files of one folder. Everything happens inside it, because it may be a mount point. A
// crash leaves one of these states, from which the next run goes on:
//
//   - The old log is in its place: what is in migratingName is deleted and begun again, since an earlier honed
//     may have appended meanwhile.
//   - Some of the old log is in oldName: the new one was verified, and the move goes on.
//
// An earlier honed refuses a folder with a mark and without READY, and this one refuses migratingName. So no
// honed begins an empty log in any of them: READY goes first, and there is always a mark.
type migration struct {
	dir string
	o   MigrateOptions
}

// Migrate turns the log of an earlier version in the folder dir into Segments. Positions stay the same.
// The old log is kept in the folder old in dir. If Migrate is interrupted, run it again: it goes on.
func Migrate(ctx context.Context, dir string, o MigrateOptions) (*Migration, error) {
	m := &migration{dir: dir, o: o}
	m.o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if m.o.step == nil {
		m.o.step = func(string) error { return nil }
	}
	done, err := m.run(ctx)
	return done, about("migrate "+dir, err)
}

func (m *migration) run(ctx context.Context) (*Migration, error) {
	if !hasOld(m.dir) && !exists(m.dir, migratingName) && !exists(m.dir, markName) {
		return nil, &Refusal{What: m.dir + " has no log", Repair: "give the folder of a log with --data"}
	}
	unlock, err := lockAll(m.dir)
	defer unlock()
	if err != nil {
		return nil, err
	}
	done, verified := m.verified()
	moved := hasOld(m.path(oldName))
	switch {
	case moved && verified:
		return done, m.move()
	case hasOld(m.dir):
		done, err := m.copy(ctx)
		if err != nil {
			return nil, err
		}
		return done, m.move()
	}
	// The last steps of a move remove an empty folder.
	if err := os.Remove(m.path(migratingName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, &Refusal{
			What:   fmt.Sprintf("%s has no old log, and %s was not verified", m.dir, m.path(migratingName)),
			Repair: "put the old log back, or restore the folder from a backup",
			Err:    err,
		}
	}
	log, err := OpenReader(ctx, m.dir, m.o.Logger)
	if err != nil {
		return nil, err
	}
	return &Migration{}, errors.Join(log.Close(), syncDir(m.dir))
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

// verified reads what copy has written down last.
func (m *migration) verified() (*Migration, bool) {
	b, err := os.ReadFile(m.path(migratingName, verifiedName))
	done := &Migration{}
	return done, err == nil && json.Unmarshal(b, done) == nil && done.Old != ""
}

// copy makes the new log, beside the old one, and verifies it. If it fails, it leaves nothing.
func (m *migration) copy(ctx context.Context) (done *Migration, err error) {
	for _, name := range []string{readyName, storeName, markName, plainName, plainLock} {
		if exists(m.path(oldName), name) {
			return nil, &Refusal{What: m.path(oldName, name) + " exists", Repair: "move it away: the old log will be kept there"}
		}
	}
	if found, err := (&Segments{dir: m.dir}).segments(); err != nil || len(found) > 0 {
		return nil, errors.Join(err, &Refusal{
			What:   m.dir + " has segments of a new log and an old log",
			Repair: "move one of them into a folder of its own",
		})
	}
	old, err := openOld(ctx, m.dir, m.o.Logger, m.o.AcceptLoss)
	if err != nil {
		return nil, err
	}
	if err := os.RemoveAll(m.path(migratingName)); err != nil {
		return nil, err
	}
	if err := m.space(old); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(m.path(migratingName))
		}
	}()
	if err := m.o.step("copy"); err != nil {
		return nil, err
	}
	if done, err = m.fill(ctx, old); err != nil {
		return nil, err
	}
	if err := m.o.step("compare"); err != nil {
		return nil, err
	}
	made, err := openSegments(m.path(migratingName), SegmentsOptions{}, true)
	if err != nil {
		return nil, err
	}
	defer made.Close()
	if err := compare(ctx, old, made, done.First, done.Last+1, pass(m.o.Progress, "compared")); err != nil {
		return nil, err
	}
	b, err := json.Marshal(done)
	if err == nil {
		err = m.o.step("mark as verified")
	}
	if err != nil {
		return nil, err
	}
	return done, writeSynced(m.path(migratingName, verifiedName), b)
}

// space refuses a disk that has no room for a second log.
func (m *migration) space(old *oldLog) error {
	need := int64(1 << 20)
	for _, p := range old.parts {
		need += p.to
	}
	if !old.format.numbered() { // JetStream's records cost more
		need += int64(old.next) * (frameHead + slotSize)
	}
	if free, err := freeSpace(m.dir); err == nil && free < uint64(need) {
		return fmt.Errorf("%w: it needs %d bytes beside the old log, and the disk of %s has %d bytes free", ErrNoSpace, need, m.dir, free)
	}
	return nil
}

// fill copies the old log to a new one and makes it durable. It refuses losses that are not accepted, when
// it has named them all.
func (m *migration) fill(ctx context.Context, old Reader) (done *Migration, err error) {
	o := SegmentsOptions{Reserve: 1}
	o.off.fsync, o.off.folders = true, true // all of it is synced at the end
	l, err := OpenSegments(m.path(migratingName), o)
	if err != nil {
		return nil, err
	}
	l.spare.space.max = 1 // there is none
	defer func() {
		if err = errors.Join(err, l.Close()); err == nil {
			err = m.sync(l)
		}
	}()
	first, next, err := old.Bounds()
	if err != nil {
		return nil, err
	}
	done = &Migration{First: first, Last: next - 1, Old: m.path(oldName)}
	var refused, worst *Damage
	var lost []*Damage
	base := uint64(0)
	err = copyRange(ctx, old, first, next, pass(m.o.Progress, "copied"), func(_ uint64, envelope []byte) error {
		if done.Envelopes++; refused != nil {
			return nil // only to name the other losses
		}
		if e, err := header(envelope); err == nil {
			base = e.Base
		}
		_, err := l.Append(ctx, envelope)
		return err
	}, func(d *Damage) error {
		m.o.Logger.Error("the old log is damaged", "err", d)
		done.Lost += d.Last + 1 - d.First
		if !m.o.AcceptLoss.Has(d) {
			worst, refused = d, cmp.Or(refused, d)
		}
		if refused != nil {
			return nil
		}
		lost = append(lost, d)
		return l.lose(d.Last)
	})
	if err == nil && refused == nil {
		err = l.bury(ctx, lost, base)
	}
	if err == nil && refused != nil {
		err = &Refusal{
			What: fmt.Sprintf("%d envelopes of the old log in %s are lost", done.Lost, m.dir),
			Repair: fmt.Sprintf("restore it from a backup, or go on without them: honed migrate --data %s --accept-loss %d-%d",
				m.dir, refused.First, worst.Last),
			Err: refused,
		}
	}
	return done, err
}

// sync makes a new log durable, which is closed.
func (m *migration) sync(l *Segments) error {
	for _, s := range l.all {
		if err := syncFile(s.path); err != nil {
			return err
		}
	}
	return errors.Join(syncDir(l.dir), syncDir(m.dir))
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
	l.mark.pos.Store(last)
	return nil
}

// bury writes down that an operator has accepted what is lost, as a start with --accept-loss does. base is that
// of the newest envelope.
func (l *Segments) bury(ctx context.Context, lost []*Damage, base uint64) error {
	var e Encoder
	e.Begin(base)
	for _, d := range lost {
		for pos := d.First; pos <= d.Last; pos++ {
			err := e.Tombstone(pos)
			if err == ErrTooLarge {
				if _, err := l.Append(ctx, e.Bytes()); err != nil {
					return err
				}
				e.Begin(base)
				err = e.Tombstone(pos)
			}
			if err != nil {
				return err
			}
		}
	}
	if e.Count() == 0 {
		return nil
	}
	_, err := l.Append(ctx, e.Bytes())
	return err
}

// move moves the old files away and the new ones into their places.
func (m *migration) move() error {
	if err := m.o.step("make a folder for the old log"); err != nil {
		return err
	}
	if err := os.MkdirAll(m.path(oldName), 0o700); err != nil {
		return err
	}
	if err := syncDir(m.dir); err != nil {
		return err
	}
	for _, name := range []string{readyName, storeName, plainName, plainLock} {
		if err := m.rename(m.dir, m.path(oldName), name); err != nil {
			return err
		}
	}
	made := m.path(migratingName)
	if exists(made, markName) && exists(m.path(oldName), storeName) { // else the mark is the new one
		if err := m.keepMark(); err != nil {
			return err
		}
	}
	segments, err := (&Segments{dir: made}).segments()
	if err != nil {
		return err
	}
	for _, s := range segments {
		if err := m.rename(made, m.dir, filepath.Base(s.path)); err != nil {
			return err
		}
	}
	if err := m.rename(made, m.dir, markName); err != nil {
		return err
	}
	for _, remove := range []string{filepath.Join(made, lockName), filepath.Join(made, verifiedName), made} {
		if err := m.o.step("remove " + filepath.Base(remove)); err != nil {
			return err
		}
		if err := os.Remove(remove); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := syncDir(filepath.Dir(remove)); err != nil {
			return err
		}
	}
	return nil
}

// keepMark copies the old mark: if it moved, an earlier honed would make an empty log in the folder.
func (m *migration) keepMark() error {
	b, err := os.ReadFile(m.path(markName))
	if err == nil {
		err = m.o.step("copy mark")
	}
	if err == nil {
		err = writeSynced(m.path(oldName, markName), b)
	}
	return err
}

// rename durably moves a file, if it is there, to another folder.
func (m *migration) rename(from, to, name string) error {
	if !exists(from, name) {
		return nil
	}
	if err := m.o.step("move " + name); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
		return err
	}
	return errors.Join(syncDir(to), syncDir(from))
}

// syncFile makes a file's content durable.
func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
