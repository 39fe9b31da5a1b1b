package writer

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// LockName is the name of the file that one process locks.
const LockName = "lock"

// Lock locks the file path and writes this process's id into it. Two processes on one store
// would destroy it. The file looks like something left over and may be deleted, so it does not
// protect the store alone: exclude locks what nobody deletes. Every lock is waited for as Exclude does.
func Lock(path string, patience time.Duration) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := Exclude(f, path, patience); err != nil {
		f.Close()
		return nil, err
	}
	// The process id is for the error message only; the lock works without it.
	if f.Truncate(0) == nil {
		f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return f, nil
}

// LockFolder locks a folder, until the file that it returns is closed.
func LockFolder(dir string, patience time.Duration) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	// Some network file systems lock no folders; there the mark's lock has to do.
	err = Exclude(f, filepath.Join(dir, LockName), patience)
	if errors.Is(err, errInUse) {
		f.Close()
		return nil, err
	}
	return f, nil
}

var errInUse = errors.New("it is locked")

// LockWait is how long a lock is waited for by default: a process that was killed a moment ago may still hold it.
const LockWait = time.Second

// Exclude locks f within some time (0: LockWait), or refuses and names the process whose id is in the file lock.
func Exclude(f *os.File, lock string, patience time.Duration) error {
	began, err := time.Now(), lockFile(f)
	for errors.Is(err, syscall.EWOULDBLOCK) && time.Since(began) < cmp.Or(patience, LockWait) {
		time.Sleep(LockWait / 100) // nothing says when a lock is free but trying
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

// Replaced returns an error if f's path does not lead to f any more.
func Replaced(f *os.File) error {
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

// SyncFolder makes the names in a folder durable.
func SyncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// WriteSynced durably creates a file with a content.
func WriteSynced(path string, content []byte) error {
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
	return SyncFolder(filepath.Dir(path))
}
