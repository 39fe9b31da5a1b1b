package journal

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hone-go/hone/gateway/internal/writer"
)

const (
	newSuffix      = ".new" // of a file that is renamed once it is complete
	mostNamed      = 5      // files in a refusal
	defaultReserve = 64 << 20
)

// ownNames are the files of a log that its folder may have without segments.
var ownNames = []string{writer.LockName, writer.MarkName, writer.MarkName + newSuffix, copyingName, copiedName, partName, spareName}

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
			has = has || name == writer.MarkName || name == copyingName
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
