package record

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// What callers branch on.
var (
	// ErrNotFound is about a reference that leads to no run, and a baseline that is
	// not there.
	ErrNotFound = errors.New("record: there is no such run")
	// ErrAmbiguous is about a reference that leads to more than one run.
	ErrAmbiguous = errors.New("record: more than one run is meant")
	// ErrBusy says that another program kept the store for all of the five seconds.
	ErrBusy = errors.New("record: another program is writing to the store")
	// ErrFull says that there was no room. Nothing has changed.
	ErrFull = errors.New("record: there is no room for the store to grow")
	// ErrReadOnly says that the store may only be read.
	ErrReadOnly = errors.New("record: the store may only be read")
	// ErrForeign is about a file that is not a store of runs.
	ErrForeign = errors.New("record: this is no store of runs")
	// ErrDamaged is about a store or an export that is not as it was written.
	ErrDamaged = errors.New("record: not as it was written")
)

// NewerError is about a store that a newer program has written. It was left alone.
type NewerError struct {
	Path   string
	Has    int // the store's version
	Latest int // the latest one that this program knows
}

// Error says which program it takes.
func (e *NewerError) Error() string {
	return fmt.Sprintf("record: %s has version %d and this program knows %d; use a newer hone", e.Path, e.Has, e.Latest)
}

// BaselineError is about a run that cannot be removed. Nothing was.
type BaselineError struct {
	ID    string
	Names []string // of its baselines
}

// Error says what to remove first.
func (e *BaselineError) Error() string {
	return fmt.Sprintf("record: run %s is the baseline %s; remove or move the baseline first", e.ID, strings.Join(e.Names, ", "))
}

// explain makes an error of the store what its user can do something about.
func (s *Store) explain(ctx context.Context, err error) error {
	var coded *sqlite.Error
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("record: %s: %w", s.path, ctx.Err())
	case ours(err):
		return err
	case errors.As(err, &coded):
		return s.explainCode(coded)
	}
	return fmt.Errorf("record: %s: %w", s.path, err)
}

func (s *Store) explainCode(err *sqlite.Error) error {
	switch err.Code() & 0xff {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return fmt.Errorf("%w: %s; try again when it has finished", ErrBusy, s.path)
	case sqlite3.SQLITE_FULL:
		return fmt.Errorf("%w: %s; nothing was changed: make room on the disk, or remove runs", ErrFull, s.path)
	case sqlite3.SQLITE_READONLY:
		return fmt.Errorf("%w: %s; make the file and its folder writable", ErrReadOnly, s.path)
	case sqlite3.SQLITE_NOTADB:
		return fmt.Errorf("%w: %s; name another file", ErrForeign, s.path)
	case sqlite3.SQLITE_CORRUPT:
		return fmt.Errorf("%w: %s: %w; take it from a backup, or export what can still be read", ErrDamaged, s.path, err)
	case sqlite3.SQLITE_CANTOPEN:
		return fmt.Errorf("record: %s cannot be opened: %w; see that it is a file, and that it and its folder may be written", s.path, err)
	case sqlite3.SQLITE_IOERR:
		return fmt.Errorf("record: %s: %w; see whether its disk is full or failing", s.path, err)
	}
	return fmt.Errorf("record: %s: %w", s.path, err)
}

// ours reports whether an error has its words already.
func ours(err error) bool {
	for _, known := range []error{ErrNotFound, ErrAmbiguous, ErrBusy, ErrFull, ErrReadOnly, ErrForeign, ErrDamaged} {
		if errors.Is(err, known) {
			return true
		}
	}
	var newer *NewerError
	var baseline *BaselineError
	return errors.As(err, &newer) || errors.As(err, &baseline)
}
