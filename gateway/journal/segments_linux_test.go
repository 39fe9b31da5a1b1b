package journal

import (
	"errors"
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
	const size = 1 << 20
	log := openedSegments(t, dir, SegmentsOptions{size: size, off: segmentGuards{fsync: true, folders: true}})
	var e Encoder
	e.Begin(0)
	must(t, e.Record(&Record{Client: "zeros", Epoch: 1, Seq: 1, Data: make([]byte, 60<<10)}))
	envelope := e.Bytes()
	pos := uint64(0)
	for _, segments := range []int{2, testrun.Sized(20, 400)} {
		for len(log.all) < segments || log.last().end < size-128<<10 {
			pos++
			appended(t, log, envelope, pos)
		}
		before, began := readSoFar(t), time.Now()
		other, err := openSegments(dir, SegmentsOptions{}, true)
		must(t, err)
		read := readSoFar(t) - before
		t.Logf("%d segments after kill -9: %d bytes read, %v", segments, read, time.Since(began))
		if _, next, _ := other.Bounds(); read > 2*size || next != pos+1 {
			t.Errorf("%d bytes read; next position %d, want %d", read, next, pos+1)
		}
		other.Close()
	}
	must(t, log.Close())
	before := readSoFar(t)
	log = openedSegments(t, dir, SegmentsOptions{})
	if read := readSoFar(t) - before; read > size/2 {
		t.Errorf("after a clean stop: %d bytes read", read)
	} else {
		t.Logf("after a clean stop: %d bytes read", read)
	}
	appended(t, log, envelope, pos+1)
}

// TestReadsOfOneSegment reads envelopes of a segment one at a time, as a reader does that is behind. That loads its index
// once, or scans the segment once if its index or its trailer is damaged.
func TestReadsOfOneSegment(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	log := openedSegments(t, dir, SegmentsOptions{off: segmentGuards{fsync: true, folders: true}})
	const n = 60_000
	envelope := sample("client", 1, 1)
	for pos := uint64(1); pos <= n; pos++ {
		appended(t, log, envelope, pos)
	}
	must(t, log.Close())
	for harm, at := range map[string]int{"none": 0, "the index": segmentTail + 99, "the trailer": 1} {
		dir := copied(t, dir)
		edit(t, segmentFiles(t, dir)[0], func(b []byte) {
			if at > 0 {
				b[len(b)-at] ^= 1
			}
		})
		openedSegments(t, dir, SegmentsOptions{}).Close() // so that it is not the last one
		log := openedSegments(t, dir, SegmentsOptions{})
		enough, reads, before := errors.New("enough"), int64(0), int64(0)
		for pos := uint64(10); pos < n; pos += n / 16 {
			if err := log.Read(t.Context(), pos, func(uint64, []byte) error { return enough }); err != enough {
				t.Fatal(harm, pos, err)
			}
			if reads++; reads == 1 {
				before = readSoFar(t)
			}
		}
		if each := (readSoFar(t) - before) / (reads - 1); each > readAhead+8192 {
			t.Errorf("damage of %s: a read of one envelope reads %d bytes", harm, each)
		}
	}
}

// readSoFar is how many bytes this process has read.
func readSoFar(t *testing.T) (n int64) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/io")
	must(t, err)
	works(t)(fmt.Sscanf(string(text), "rchar: %d", &n))
	return n
}
