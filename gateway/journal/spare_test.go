package journal

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestSpare fills segments that are made of spares, kills the log in the middle of one, and reads
// everything back.
func TestSpare(t *testing.T) {
	t.Parallel()
	dir, size := filepath.Join(t.TempDir(), "data"), int64(8*spareStep/4)
	log := openedSegments(t, dir, SegmentsOptions{size: size})
	big := func(i uint64) []byte { return sample("client", i, int(size)/40/64) }
	next := uint64(1)
	for range 3 {
		for first := log.last().first; log.last().first == first; next++ {
			appended(t, log, big(next), next)
			log.spare.making.Wait()
		}
		info, err := os.Stat(log.last().path)
		if err != nil || info.Size() != size || log.zeros != size {
			t.Fatalf("a segment after a spare has %d bytes, %v; zeros up to %d, want %d", info.Size(), err, log.zeros, size)
		}
	}
	for range 5 { // within the zeros, from the middle of a page each time
		appended(t, log, big(next), next)
		next++
	}
	whole, err := os.ReadFile(log.last().path)
	if err != nil || int64(len(whole)) != size || len(bytes.Trim(whole[log.last().end:], "\x00")) > 0 {
		t.Fatalf("%d bytes, %v: not only zeros after the last envelope", len(whole), err)
	}
	copied := filepath.Join(t.TempDir(), "data")
	must(t, os.CopyFS(copied, os.DirFS(dir)))
	killed := openedSegments(t, copied, SegmentsOptions{size: size})
	all := contents(t, killed, 1)
	if len(all) != int(next-1) {
		t.Fatalf("%d envelopes after a kill, want %d", len(all), next-1)
	}
	for i, envelope := range all {
		if !bytes.Equal(envelope, big(uint64(i)+1)) {
			t.Fatalf("envelope %d is another one after a kill", i+1)
		}
	}
	appended(t, killed, big(next), next)
}

// TestSpareFill writes zeros past the page cache, and into it where that cannot be done.
func TestSpareFill(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{spareStep + zeroBytes, 3*zeroBytes + 123} { // direct writes need whole blocks
		path := filepath.Join(t.TempDir(), spareName)
		f, err := os.Create(path)
		must(t, err)
		defer f.Close()
		p := spare{path: path, size: size}
		must(t, p.zero(f))
		got, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(got, make([]byte, size)) {
			t.Errorf("%d bytes, %v, want %d zeros", len(got), err, size)
		}
	}
}
