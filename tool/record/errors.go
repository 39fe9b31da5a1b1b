package record

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// Errors on which callers branch.
var (
	// ErrNotFound reports a reference to no run.
	ErrNotFound = errors.New("record: no such run")
	// ErrAmbiguous reports a reference that matches more than one run.
	ErrAmbiguous = errors.New("record: more than one run matches")
	// ErrFull reports a full disk. Nothing has changed.
	ErrFull = errors.New("record: no room for the store to grow")
	// ErrReadOnly reports that the store is not writable.
	ErrReadOnly = errors.New("record: the store is read-only")
	// ErrForeign reports a file or folder that is not a store of runs.
	ErrForeign = errors.New("record: not a store of runs")
	// ErrDamaged reports a run that differs from what was written.
	ErrDamaged = errors.New("record: not as it was written")
)

// explain adds advice to an error of the disk.
func (s *Store) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w: %s; nothing was changed: make room on the disk, or remove runs", ErrFull, s.path)
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w: %s; make the folder writable", ErrReadOnly, s.path)
	}
	return fmt.Errorf("record: %s: %w", s.path, err)
}
