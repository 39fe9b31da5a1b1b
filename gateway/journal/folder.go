package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// takeLock locks the file path and writes this process's id into it. Two processes on one store
// would destroy it.
func takeLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lockFile(f); err != nil {
		owner, _ := os.ReadFile(path)
		f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, &Refusal{What: "cannot lock " + path, Repair: "use a folder on a file system that has locks", Err: err}
		}
		return nil, &Refusal{
			What:   fmt.Sprintf("%s is in use by process %s", filepath.Dir(path), strings.TrimSpace(string(owner))),
			Repair: "stop that process, or use another folder",
		}
	}
	// The process id is for the error message only; the lock works without it.
	if f.Truncate(0) == nil {
		f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return f, nil
}

// syncDir makes a folder's entries durable.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = f.Sync()
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
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
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	return err
}
