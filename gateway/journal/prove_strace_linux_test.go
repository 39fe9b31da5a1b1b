package journal

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hone-go/hone/internal/testrun"
)

// traced is a line of strace -f -y: process, then a call that ended, began or went on.
var traced = regexp.MustCompile(`^(\d+) +(?:(\w+)\((\d+)<([^>]*)>.*?(<unfinished \.\.\.>|= -?\d+.*)|<\.\.\. (\w+) resumed>.*(= -?\d+.*))$`)

// call is one system call that has begun.
type call struct {
	name, fd, path string
	writes         int // that had begun before an fsync
}

// order checks a trace: each acknowledgement, a write to descriptor 1, follows an fsync that
// succeeded, and that began after the write of the record. It returns how many it saw.
func order(trace *bufio.Scanner, isData func(path string) bool) (acks int, err error) {
	open := map[string]call{}
	began, ended, synced := 0, 0, 0 // data writes
	for trace.Scan() {
		m := traced.FindStringSubmatch(trace.Text())
		if m == nil {
			continue
		}
		c, result := open[m[1]], m[7]
		if m[2] != "" {
			c, result = call{name: m[2], fd: m[3], path: m[4]}, m[5]
			data := isData(c.path)
			switch {
			case data && (c.name == "fsync" || c.name == "fdatasync"):
				c.writes = -1
				if began == ended {
					c.writes = ended
				}
			case data:
				began++
			case c.fd == "1" && c.name == "write":
				if acks++; acks > 1 && (synced < began || began < acks-1) {
					return acks - 1, fmt.Errorf("acknowledgement %d leaves after %d writes, of which %d were synced", acks-1, began, synced)
				}
			}
			if strings.HasPrefix(result, "<unfinished") {
				open[m[1]] = c
				continue
			}
		}
		if isData(c.path) {
			if c.name != "fsync" && c.name != "fdatasync" {
				ended++
			} else if strings.HasPrefix(result, "= 0") {
				synced = max(synced, c.writes)
			}
		}
	}
	return acks - 1, trace.Err() // the first report is of the recovery
}

// TestProveOrder watches the system calls: every acknowledgement follows its fsync.
func TestProveOrder(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		testrun.Lacks(t, fmt.Sprintf("NOT PROVEN HERE: this proof needs strace: %v", err))
	}
	const appends = 150
	for _, kind := range []string{"segments"} {
		for _, off := range []string{"", "fsync"} {
			out := filepath.Join(t.TempDir(), "trace")
			p := newProof(t, task{Kind: kind, Dir: t.TempDir(), Off: off, Appends: appends})
			c := p.start(strace, "-f", "-y", "-qq", "-s", "0", "-e", "trace=write,pwrite64,fsync,fdatasync", "-o", out)
			got := c.acks(-1)
			c.kill()
			f, err := os.Open(out)
			must(t, err)
			defer f.Close()
			acks, err := order(bufio.NewScanner(f), func(path string) bool {
				return strings.HasSuffix(path, segmentSuffix)
			})
			t.Logf("%s, without %q: %d acknowledgements, %v", kind, off, acks, err)
			if off == "" && (err != nil || acks != appends || got != appends) {
				t.Errorf("%s: %d acknowledgements in the trace, %d received: %v", kind, acks, got, err)
			}
			if off != "" && err == nil {
				t.Errorf("%s, the control: every acknowledgement follows an fsync, so the check shows nothing", kind)
			}
		}
	}
}
