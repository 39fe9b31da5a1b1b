package record

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Errors on which callers branch.
var (
	// ErrNotFound reports a reference to no run, or a missing baseline.
	ErrNotFound = errors.New("record: no such run")
	// ErrAmbiguous reports a reference that matches more than one run.
	ErrAmbiguous = errors.New("record: more than one run matches")
	// ErrBusy reports that another program held the store for the whole five seconds.
	ErrBusy = errors.New("record: another program is writing to the store")
	// ErrFull reports a full disk. Nothing has changed.
	ErrFull = errors.New("record: no room for the store to grow")
	// ErrReadOnly reports that the store is not writable.
	ErrReadOnly = errors.New("record: the store is read-only")
	// ErrForeign reports a file that is not a store of runs.
	ErrForeign = errors.New("record: not a store of runs")
	// ErrVersion reports a store of another version. It was not touched.
	ErrVersion = errors.New("record: a store of another version")
	// ErrDamaged reports a store or an export that differs from what was written.
	ErrDamaged = errors.New("record: not as it was written")
)

// BaselineError reports a run that cannot be removed because it is a baseline. Nothing
// was removed.
type BaselineError struct {
	ID    string
	Names []string // of its baselines
}

// Error says what to remove first.
func (e *BaselineError) Error() string {
	return fmt.Sprintf("record: run %s is the baseline %s; remove or move the baseline first", e.ID, strings.Join(e.Names, ", "))
}

// explain adds advice to an error of the store.
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
		return fmt.Errorf("record: cannot open %s: %w; check that it is a file, and that it and its folder are writable", s.path, err)
	case sqlite3.SQLITE_IOERR:
		return fmt.Errorf("record: %s: %w; check whether its disk is full or failing", s.path, err)
	}
	return fmt.Errorf("record: %s: %w", s.path, err)
}

// ours reports whether an error already has advice.
func ours(err error) bool {
	for _, known := range []error{ErrNotFound, ErrAmbiguous, ErrBusy, ErrFull, ErrReadOnly, ErrForeign, ErrVersion, ErrDamaged} {
		if errors.Is(err, known) {
			return true
		}
	}
	var baseline *BaselineError
	return errors.As(err, &baseline)
}
