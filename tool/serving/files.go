package serving

import (
	"cmp"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// folder is the http.FileSystem of --files: the regular files and folders below root, and
// nothing else. What it does not serve looks as if it did not exist. It also stays in
// root where the names in it change during a request.
type folder struct {
	root  *os.Root
	dots  bool // also files and folders whose names begin with a dot
	links bool // follow symbolic links that stay below root, without dots not to such names
}

// Open implements http.FileSystem.
func (f *folder) Open(name string) (http.File, error) {
	name, err := filepath.Localize(cmp.Or(strings.TrimPrefix(path.Clean("/"+name), "/"), "."))
	if err != nil || !f.serves(name) {
		return nil, fs.ErrNotExist
	}
	// Without waiting, because the name may be a FIFO's by now, which nobody writes.
	file, err := f.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, absent(err)
	}
	info, err := file.Stat()
	switch {
	case err == nil && info.IsDir():
		return listing{file, f, name}, nil
	case err == nil && info.Mode().IsRegular():
		return file, nil // itself, so that a server can use sendfile
	}
	file.Close()
	return nil, fs.ErrNotExist
}

// serves reports whether a name may be opened. It stops at the first element that may
// not, so that a long name costs no more than the folders that exist.
func (f *folder) serves(name string) bool {
	for end := 0; name != "." && end < len(name); end++ {
		if next := strings.IndexRune(name[end:], filepath.Separator); next >= 0 {
			end += next
		} else {
			end = len(name)
		}
		if !f.shows(name[:end]) {
			return false
		}
	}
	return true
}

// shows reports whether the last element of a name may be opened.
func (f *folder) shows(name string) bool {
	if !f.dots && strings.HasPrefix(filepath.Base(name), ".") {
		return false
	}
	info, err := f.root.Lstat(name)
	if err == nil && f.links && info.Mode().Type() == fs.ModeSymlink {
		info, err = f.root.Stat(name)
		if err == nil && !f.dots && f.leadsToDots(name) {
			return false
		}
	}
	return err == nil && (info.IsDir() || info.Mode().IsRegular())
}

// mostLinks is how many symbolic links a name may lead through, as on Linux.
const mostLinks = 40

// leadsToDots reports whether a name leads to or through a name that begins with one dot. It
// follows every link itself, because what .. means depends on where the links before it lead.
func (f *folder) leadsToDots(name string) bool {
	const separator = string(filepath.Separator)
	at, links := ".", 0
	for rest, element := name, ""; rest != ""; {
		element, rest, _ = strings.Cut(rest, separator)
		switch {
		case element == "..":
			at = filepath.Dir(at) // links out of the folder do not get here
			continue
		case element == "." || element == "":
			continue
		case element[0] == '.' && element[1] != '.': // not a volume of Kubernetes, whose links lead through ..data
			return true
		}
		next := filepath.Join(at, element)
		target, err := f.root.Readlink(next)
		if err != nil { // not a link
			at = next
			continue
		}
		if links++; links > mostLinks { // it changes while it is read
			return true
		}
		rest = filepath.FromSlash(target) + separator + rest
	}
	return false
}

// absent returns fs.ErrNotExist for the errors of names that no file can have and of
// links that leave the folder, and other errors as they are.
func absent(err error) error {
	errno := syscall.Errno(0)
	switch errors.As(err, &errno); errno {
	case 0, syscall.ENOENT, syscall.ENOTDIR, syscall.ENAMETOOLONG, syscall.ELOOP, syscall.EINVAL:
		return fs.ErrNotExist
	}
	return err
}

// listing is an open folder that lists only what the server serves.
type listing struct {
	*os.File
	in   *folder
	name string
}

// Readdir implements http.File.
func (l listing) Readdir(n int) ([]fs.FileInfo, error) {
	all, err := l.File.Readdir(n)
	return slices.DeleteFunc(all, func(info fs.FileInfo) bool { return !l.has(info.Name()) }), err
}

// ReadDir implements fs.ReadDirFile, which http.FileServer prefers.
func (l listing) ReadDir(n int) ([]fs.DirEntry, error) {
	all, err := l.File.ReadDir(n)
	return slices.DeleteFunc(all, func(entry fs.DirEntry) bool { return !l.has(entry.Name()) }), err
}

func (l listing) has(entry string) bool { return l.in.shows(filepath.Join(l.name, entry)) }
