package journal

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

// strangers are files of other logs: some that programs write, and some with random names and content.
func strangers(rng *rand.Rand, random int) []map[string]string {
	mark := string(writer.MarkSlot(1, 9))
	all := []map[string]string{
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
	const letters = "mark.seg0123-ä\n" // close to the names of a log
	for range random {
		files := map[string]string{}
		for range 1 + rng.IntN(7) {
			name := "x"
			for range rng.IntN(12) {
				name += string([]rune(letters)[rng.IntN(len([]rune(letters)))])
			}
			content := make([]byte, rng.IntN(200))
			for i := range content {
				content[i] = byte(rng.Uint32())
			}
			files[name] = string(content)
		}
		if rng.IntN(2) == 0 {
			files[writer.MarkName] = mark
		}
		all = append(all, files)
	}
	return all
}

// TestStrangeFolders: a folder with files that are of no log is not taken for an empty one, nor for a log. Each refusal
// names such a file in one line, and nothing is written.
func TestStrangeFolders(t *testing.T) {
	t.Parallel() // it waits for fsyncs
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	from := killed(t, 10, true)
	for _, files := range strangers(rand.New(rand.NewPCG(seed, 4)), testrun.Sized(30, 1000)) {
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
