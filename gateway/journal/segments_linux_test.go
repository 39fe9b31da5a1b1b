package journal

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hone-go/hone/internal/testrun"
)

// TestSegmentStart opens logs of few and of many segments as a kill -9 leaves them. It reads one segment
// and little of the others, and none after a clean stop.
func TestSegmentStart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	log := openedSegments(t, dir, SegmentsOptions{off: segmentGuards{fsync: true, folders: true, sparse: true}})
	var e Encoder
	data := make([]byte, 1<<20-8192)
	e.Begin(0)
	must(t, e.Record(&Record{Client: "zeros", Epoch: 1, Seq: 1, Data: data}))
	envelope := e.Bytes()
	pos := uint64(0)
	for _, segments := range []int{2, testrun.Sized(20, 1600)} {
		for len(log.all) < segments || log.last().end < segmentBytes-2<<20 {
			pos++
			appended(t, log, envelope, pos)
		}
		before, began := readSoFar(t), time.Now()
		other, err := openSegments(dir, SegmentsOptions{}, true)
		must(t, err)
		read := readSoFar(t) - before
		t.Logf("%d segments after kill -9: %d bytes read, %v", segments, read, time.Since(began))
		if _, next, _ := other.Bounds(); read > segmentBytes+4<<20 || next != pos+1 {
			t.Errorf("%d bytes read; next position %d, want %d", read, next, pos+1)
		}
		other.Close()
	}
	must(t, log.Close())
	before := readSoFar(t)
	log = openedSegments(t, dir, SegmentsOptions{})
	if read := readSoFar(t) - before; read > 1<<20 {
		t.Errorf("after a clean stop: %d bytes read", read)
	} else {
		t.Logf("after a clean stop: %d bytes read", read)
	}
	appended(t, log, envelope, pos+1)
}

// readSoFar is how many bytes this process has read.
func readSoFar(t *testing.T) (n int64) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/io")
	must(t, err)
	if _, err := fmt.Sscanf(string(text), "rchar: %d", &n); err != nil {
		t.Fatal(err)
	}
	return n
}
