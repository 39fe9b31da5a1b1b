package journal

import (
	"log/slog"
	"os"
	"path/filepath"
)

// The files of logs that earlier versions wrote.
const (
	readyName     = "READY"     // beside an embedded JetStream store
	storeName     = "store"     // JetStream's folder
	plainName     = "log"       // the plain file of --log file:
	migratingName = "migrating" // the new log while Migrate works
)

// OpenReader opens the log in the folder dir for reading. It needs no lock and changes nothing, so another
// process may append meanwhile: the log has the envelopes of the time of the call. logger gets what is
// damaged; nil means no logging.
func OpenReader(dir string, logger *slog.Logger) (Reader, error) {
	for _, name := range []string{markName, readyName, plainName} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return openSegments(dir, SegmentsOptions{Logger: logger}, true)
		}
	}
	return nil, &Refusal{What: dir + " has no log", Repair: "give the folder of a log with --data"}
}

// refuseOld returns a *Refusal if the folder has a log of an earlier version, or an unfinished migration.
func refuseOld(dir string) error {
	for name, what := range map[string]string{
		migratingName: "has an unfinished migration",
		readyName:     "has the log of an earlier honed, in JetStream's format",
		plainName:     "has the log of an earlier honed, a plain file",
	} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return &Refusal{What: dir + " " + what, Repair: "type: honed migrate --data " + dir}
		}
	}
	return nil
}
