package journal

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hone-go/hone/gateway/internal/writer"
	"github.com/hone-go/hone/internal/testrun"
)

// fill writes files into a folder.
func fill(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = os.WriteFile(path, []byte(content), 0o600)
		}
		must(t, err)
	}
}

// strangers are files of other logs.
func strangers() []map[string]string {
	mark := string(writer.MarkSlot(1, 9))
	return []map[string]string{
		{"log": string(sample("a", 1, 1))},
		{"log": "", "log.lock": "1\n"},
		{"READY": "honed log 1\n", writer.LockName: "1\n", writer.MarkName: mark, "store/jetstream/$G/streams/LOG/msgs/1.blk": "\x00\x01"},
		{"store/empty": ""},
		{"READY": ""},
		{"1": "", "2": "", "3": "", "4": "", "5": "", "6": "", "7": ""},
		{"two\nlines": ""},
		{segmentName(0): mark, "1.seg": mark, segmentName(1) + ".bak": mark},
		{"HONED.mark": mark, "HONED.lock": "1\n"},
	}
}

// TestStrangeFolders: a folder with files that are of no log is not taken for an empty one, nor for a log. Each refusal
// names such a file in one line, and nothing is written.
func TestStrangeFolders(t *testing.T) {
	t.Parallel() // it waits for fsyncs
	from := killed(t, 10, true)
	for _, files := range strangers() {
		dir := t.TempDir()
		fill(t, dir, files)
		before := tree(t, dir)
		_, opens := OpenSegments(dir, SegmentsOptions{})
		_, reads := OpenReader(dir, nil)
		_, copies := Backup(t.Context(), dir, filepath.Join(t.TempDir(), "copy"), BackupOptions{})
		_, backs := Backup(t.Context(), from, dir, BackupOptions{})
		for what, err := range map[string]error{"opens": opens, "reads": reads, "copies": copies, "backs up": backs} {
			named := false
			for name := range files {
				name, _, _ = strings.Cut(name, "/")
				named = named || name != writer.MarkName && name != writer.LockName && says(err, fmt.Sprintf("%q", name))
			}
			if !named || !says(err, dir+" has no segments of a log, but other files: ") || says(err, "\n") {
				t.Errorf("%s %q: %v", what, files, err)
			}
			if len(files) > mostNamed && files[writer.MarkName] == "" && !says(err, fmt.Sprintf(", and %d more; use an empty folder, or that of a log", len(files)-mostNamed)) {
				t.Errorf("%s %q: %v", what, files, err)
			}
		}
		if after := tree(t, dir); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("%q: there are now %q", before, after)
		}
	}
}

// TestUsableFolders: what file systems, an interrupted start and honed's listeners leave in a folder does not prevent
// a new log.
func TestUsableFolders(t *testing.T) {
	dir := testrun.SocketFolder(t)
	fill(t, dir, map[string]string{
		"lost+found/x": "", ".snapshot/1": "", ".nfs0001": "", writer.LockName: "1\n", writer.MarkName + newSuffix: "", spareName: "", partName: "", tornPrefix + "7": "",
	})
	ln, err := net.Listen("unix", filepath.Join(dir, "honed.sock"))
	must(t, err)
	defer ln.Close()
	log := openedSegments(t, dir, SegmentsOptions{})
	appended(t, log, sample("a", 1, 1), 1)
}
