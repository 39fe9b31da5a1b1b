package journal

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
)

// The files of logs that earlier versions wrote.
const (
	readyName     = "READY" // beside an embedded JetStream store
	storeName     = "store" // JetStream's folder
	blockFolder   = storeName + "/jetstream/$G/streams/LOG/msgs"
	plainName     = "log"       // the plain file of --log file:
	plainLock     = "log.lock"  // beside it
	migratingName = "migrating" // a file: Migrate has not ended
	oldName       = "old"       // what Migrate replaced
)

// OpenReader opens the log in the folder dir for reading, also one that an earlier version wrote. It needs
// no lock and changes nothing, so another process may append meanwhile: the log has the envelopes of the
// time of the call. Opening the log of an earlier version reads all of it, until ctx ends. logger gets what is
// damaged; nil means no logging.
func OpenReader(ctx context.Context, dir string, logger *slog.Logger) (Reader, error) {
	switch {
	case hasOld(dir):
		return openOld(ctx, dir, logger, Range{})
	case exists(dir, migratingName):
		return nil, refuseOld(dir)
	}
	if err := refuseEmpty(dir); err != nil {
		return nil, err
	}
	return openSegments(dir, SegmentsOptions{Logger: logger}, true)
}

// refuseEmpty returns a *Refusal if the folder dir does not exist, or has nothing of a log.
func refuseEmpty(dir string) error {
	const repair = "give the folder of a log"
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &Refusal{What: "there is no folder " + dir, Repair: repair}
	case err != nil:
		return err
	}
	for _, e := range entries {
		if name := e.Name(); name == markName || name == copyingName || filepath.Ext(name) == segmentSuffix {
			return nil
		}
	}
	return &Refusal{What: dir + " has no log", Repair: repair}
}

// hasOld reports whether a folder has the log of an earlier version, or a part of one.
func hasOld(dir string) bool {
	return exists(dir, readyName) || exists(dir, storeName) || exists(dir, plainName)
}

func exists(dir, name string) bool {
	_, err := os.Lstat(filepath.Join(dir, name))
	return err == nil
}

// refuseOld returns a *Refusal if the folder has a log of an earlier version, or an unfinished migration.
func refuseOld(dir string) error {
	for _, old := range [][2]string{
		{migratingName, "has an unfinished migration"},
		{readyName, "has the log of an earlier honed, in JetStream's format"},
		{storeName, "has the log of an earlier honed, in JetStream's format"},
		{plainName, "has the log of an earlier honed, a plain file"},
	} {
		if exists(dir, old[0]) {
			return &Refusal{What: dir + " " + old[1], Repair: "type: honed migrate --data " + dir}
		}
	}
	return nil
}
