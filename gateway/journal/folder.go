package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	lockName       = "lock"
	newSuffix      = ".new" // of a file that is renamed once it is complete
	mostNamed      = 5      // files in a refusal
	defaultReserve = 64 << 20
)

// ownNames are the files of a log that its folder may have without segments.
var ownNames = []string{lockName, markName, markName + newSuffix, copyingName, partName, spareName}

// holdsLog reports whether the folder dir has a log, or a part of one. It returns a *Refusal if the folder has no
// segments but files that are not of a log: they may be a log that this package cannot read.
func holdsLog(dir string) (has bool, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false, err
	}
	var others []string
	for _, e := range entries {
		name := e.Name()
		if firstOf(name) > 0 {
			return true, nil
		}
		switch {
		case slices.Contains(ownNames, name) || strings.HasPrefix(name, tornPrefix):
			has = has || name == markName || name == copyingName
		case name[0] == '.' || name == "lost+found" || e.Type() == fs.ModeSocket: // of mount points, and of honed's listeners
		default:
			others = append(others, strconv.Quote(name))
		}
	}
	if len(others) == 0 {
		return has, nil
	}
	if more := len(others) - mostNamed; more > 0 {
		others = append(others[:mostNamed], fmt.Sprintf("and %d more", more))
	}
	return has, &Refusal{
		What:   fmt.Sprintf("%s has no segments of a log, but other files: %s", dir, strings.Join(others, ", ")),
		Repair: "use an empty folder, or that of a log",
	}
}

func exists(dir, name string) bool {
	_, err := os.Lstat(filepath.Join(dir, name))
	return err == nil
}

// takeLock locks the file path and writes this process's id into it. Two processes on one store
// would destroy it. The file looks like something left over and may be deleted, so it does not
// protect the store alone: exclude locks what nobody deletes.
func takeLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := exclude(f, path); err != nil {
		f.Close()
		return nil, err
	}
	// The process id is for the error message only; the lock works without it.
	if f.Truncate(0) == nil {
		f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return f, nil
}

// takeFolder locks a folder, until the file that it returns is closed.
func takeFolder(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	// Some network file systems lock no folders; there the mark's lock has to do.
	err = exclude(f, filepath.Join(dir, lockName))
	if errors.Is(err, errInUse) {
		f.Close()
		return nil, err
	}
	return f, nil
}

var errInUse = errors.New("it is locked")

// lockWait is how long a lock is waited for: a process that was killed a moment ago may still hold it.
const lockWait = time.Second

// exclude locks f, or refuses and names the process whose id is in the file lock.
func exclude(f *os.File, lock string) error {
	began, err := time.Now(), lockFile(f)
	for errors.Is(err, syscall.EWOULDBLOCK) && time.Since(began) < lockWait {
		time.Sleep(lockWait / 100) // nothing says when a lock is free but trying
		err = lockFile(f)
	}
	switch {
	case err == nil:
		return nil
	case errors.As(err, new(*Refusal)): // there are no locks on this system
		return err
	case !errors.Is(err, syscall.EWOULDBLOCK):
		return &Refusal{What: "cannot lock " + f.Name(), Repair: "use a folder on a file system that has locks", Err: err}
	}
	owner := "another process"
	if id, err := os.ReadFile(lock); err == nil && len(id) > 0 {
		owner = "process " + strings.TrimSpace(string(id))
	}
	return &Refusal{
		What:   fmt.Sprintf("%s is in use by %s", filepath.Dir(lock), owner),
		Repair: "stop that process, or use another folder",
		Err:    errInUse,
	}
}

// replaced returns an error if f's path does not lead to f any more.
func replaced(f *os.File) error {
	at, err := os.Stat(f.Name())
	if err == nil {
		var open os.FileInfo
		if open, err = f.Stat(); err == nil && os.SameFile(at, open) {
			return nil
		}
	}
	what := "was replaced"
	if errors.Is(err, os.ErrNotExist) {
		what = "was deleted or moved"
	} else if err != nil {
		what = "cannot be found"
	}
	return &Refusal{
		What:   fmt.Sprintf("%s %s while this process wrote to it", f.Name(), what),
		Repair: "put the log back, or choose which one to keep, before you start again",
		Err:    err,
	}
}

// space is how large a log may become.
type space struct {
	dir          string
	reserve, max int64 // max 0: only the disk limits it
}

// left returns how many bytes a log of a size may still grow.
func (s space) left(size int64) int64 {
	left := int64(math.MaxInt64)
	if free, err := freeSpace(s.dir); err == nil {
		left = max(int64(free)-s.reserve, 0)
	}
	if s.max > 0 {
		left = min(left, max(s.max-size, 0))
	}
	return left
}

// check returns ErrNoSpace if more bytes would exceed the limit or use the disk's reserve.
func (s space) check(size, more int64) error {
	if s.max > 0 && size+more > s.max {
		return fmt.Errorf("%w: %s has %d bytes; its limit is %d", ErrNoSpace, s.dir, size, s.max)
	}
	free, err := freeSpace(s.dir)
	if err == nil && free < uint64(s.reserve+more) {
		err = fmt.Errorf("%w: the disk of %s has %d bytes free; the reserve is %d", ErrNoSpace, s.dir, free, s.reserve)
	}
	return err
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// writeSynced durably creates a file with a content.
func writeSynced(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}
