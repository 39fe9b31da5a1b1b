package record

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
)

// newPrefix begins the names of what is not whole yet, or is being removed.
const newPrefix = ".new-"

// disk changes files so that each is whole or absent, whenever the program or the machine stops.
type disk struct {
	did func(change) // told of every change, for tests; nil: nobody is
}

// change is a change to the disk, or the promise that those before it will survive a power failure.
type change struct {
	what, path, to string // mkdir, write, sync, rename, remove
	data           []byte
}

func (d *disk) tell(what, path, to string, data []byte) {
	if d.did != nil {
		d.did(change{what, path, to, data})
	}
}

// makeFolder creates a folder and its parents.
func (d *disk) makeFolder(path string) error {
	up := filepath.Dir(path)
	if _, err := os.Stat(up); errors.Is(err, fs.ErrNotExist) {
		if err := d.makeFolder(up); err != nil {
			return err
		}
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	}
	d.tell("mkdir", path, "", nil)
	return d.sync(up)
}

// fill writes a new file, and closes it.
func (d *disk) fill(f *os.File, data []byte) error {
	_, err := f.Write(data)
	d.tell("write", f.Name(), "", data)
	if err == nil {
		err = f.Sync()
		d.tell("sync", f.Name(), "", nil)
	}
	return errors.Join(err, f.Close())
}

// sync makes the names in a folder survive a power failure.
func (d *disk) sync(folder string) error {
	if runtime.GOOS == "windows" { // it cannot
		return nil
	}
	f, err := os.Open(folder)
	if err != nil {
		return err
	}
	defer f.Close()
	err = f.Sync()
	d.tell("sync", folder, "", nil)
	return err
}

// rename gives a file or folder its name, in the folder of that name.
func (d *disk) rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	d.tell("rename", from, to, nil)
	return d.sync(filepath.Dir(to))
}

// place makes a folder with these files; one of that name stays as it is.
func (d *disk) place(path string, files map[string][]byte) error {
	draft, err := os.MkdirTemp(filepath.Dir(path), newPrefix+"*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(draft) // without effect once it has its name
	d.tell("mkdir", draft, "", nil)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f, err := os.OpenFile(filepath.Join(draft, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		if err := d.fill(f, files[name]); err != nil {
			return err
		}
	}
	if err := d.sync(draft); err != nil {
		return err
	}
	if err := d.rename(draft, path); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// remove removes a folder, at once for all readers, and returns the size of its files.
func (d *disk) remove(path string) (freed int64, err error) {
	gone := filepath.Join(filepath.Dir(path), newPrefix+filepath.Base(path))
	if err := os.RemoveAll(gone); err != nil { // of a program that was killed meanwhile
		return 0, err
	}
	if err := d.rename(path, gone); err != nil {
		return 0, err
	}
	entries, err := os.ReadDir(gone)
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			freed += info.Size()
		}
	}
	d.tell("remove", gone, "", nil)
	return freed, errors.Join(err, os.RemoveAll(gone))
}
