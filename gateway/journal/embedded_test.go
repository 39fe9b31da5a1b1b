package journal

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

func openedEmbedded(t *testing.T, dir string, o EmbeddedOptions) *Embedded {
	t.Helper()
	log, err := OpenEmbedded(t.Context(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// filled makes an embedded log of n envelopes, stops it cleanly and returns its folder.
func filled(t *testing.T, n int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	log := openedEmbedded(t, dir, EmbeddedOptions{})
	for i := range n {
		appended(t, log, sample("a", uint64(i)+1, 1), uint64(i)+1)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// refused opens a log that has to be refused with something to do.
func refused(t *testing.T, dir string) {
	t.Helper()
	log, err := OpenEmbedded(t.Context(), dir, EmbeddedOptions{})
	if err == nil {
		log.Close()
		t.Fatal("the damaged log was opened")
	}
	var refusal *Refusal
	if !errors.As(err, &refusal) || refusal.What == "" || refusal.Repair == "" {
		t.Fatalf("not a refusal with a repair: %v", err)
	}
	t.Log(err)
}

// stored counts the envelopes of a log that opens.
func stored(t *testing.T, dir string, o EmbeddedOptions) (n int) {
	t.Helper()
	log := openedEmbedded(t, dir, o)
	defer log.Close()
	first, next, err := log.Bounds()
	if err != nil {
		t.Fatal(err)
	}
	return int(next - first)
}

func streamFile(dir string, name ...string) string {
	return filepath.Join(append([]string{filepath.Dir(filepath.Join(dir, blockFolder))}, name...)...)
}

// copied is a copy of a folder, so that a damage can be tried twice.
func copied(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

// flip changes one bit in the middle of the store's only message file.
func flip(t *testing.T, dir string) {
	t.Helper()
	path := streamFile(dir, "msgs", "1.blk")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestMetaSumIsMissing is JetStream's first failure: the stream is invisible, it can be created
// again, accepts messages, and is gone with all of them at the start after that.
func TestMetaSumIsMissing(t *testing.T) {
	withoutStream(t, func(t *testing.T, dir string) {
		if err := os.Remove(streamFile(dir, "meta.sum")); err != nil {
			t.Fatal(err)
		}
	})
}

// TestMetaSumIsStale is the second: a crash between writing meta.inf and meta.sum.
func TestMetaSumIsStale(t *testing.T) {
	withoutStream(t, func(t *testing.T, dir string) {
		if err := os.WriteFile(streamFile(dir, "meta.sum"), []byte("0123456789abcdef"), 0o600); err != nil {
			t.Fatal(err)
		}
	})
}

func withoutStream(t *testing.T, damage func(t *testing.T, dir string)) {
	const n = 60
	whole := filled(t, n)
	guarded := copied(t, whole)
	damage(t, guarded)
	refused(t, guarded)

	// Without the marker the stream is made again, accepts messages, and is invisible at the
	// next start: what was acknowledged is gone, or comes back by luck.
	damage(t, whole)
	off := EmbeddedOptions{off: guards{ready: true, mark: true, verify: true}}
	log := openedEmbedded(t, whole, off)
	_, next, err := log.Bounds()
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(10) {
		appended(t, log, sample("b", i+1, 1), next+i)
	}
	log.Close()
	refused(t, whole)
}

// TestFlippedBit is the third: after a clean stop, one bit makes JetStream forget all that
// follows, and give the same positions again.
func TestFlippedBit(t *testing.T) {
	const n = 60
	whole := filled(t, n)
	guarded := copied(t, whole)
	flip(t, guarded)
	refused(t, guarded)

	flip(t, whole)
	log := openedEmbedded(t, whole, EmbeddedOptions{off: guards{mark: true, expect: true}})
	defer log.Close()
	_, next, err := log.Bounds()
	if err != nil || next > n {
		t.Fatalf("without the mark the log goes on at position %d (%v), so this test shows nothing", next, err)
	}
	appended(t, log, sample("b", 1, 1), next)
	t.Logf("without the mark %d of %d envelopes are there, and position %d is given again", next-1, n, next)
}

// TestForeignPublish: somebody else's message takes a position.
func TestForeignPublish(t *testing.T) {
	for _, off := range []bool{false, true} {
		log := openedEmbedded(t, filepath.Join(t.TempDir(), "data"), EmbeddedOptions{off: guards{expect: off}})
		appended(t, log, sample("a", 1, 1), 1)
		nc, err := nats.Connect("", nats.InProcessServer(log.server))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := nc.Request(subject+"."+streamName, []byte("foreign"), 10*time.Second); err != nil {
			t.Fatal(err)
		}
		nc.Close()
		if _, err := log.Append(t.Context(), sample("a", 2, 1)); !errors.Is(err, ErrBroken) {
			t.Errorf("guard off %v: got %v", off, err)
		}
		info, err := log.stream.state(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if want := map[bool]uint64{false: 2, true: 3}[off]; info.State.LastSeq != want {
			t.Errorf("guard off %v: the stream ends at %d, want %d", off, info.State.LastSeq, want)
		}
		log.Close()
	}
}

// TestForeignEnvelope: what is in the log and is no envelope is found at boot.
func TestForeignEnvelope(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	log := openedEmbedded(t, dir, EmbeddedOptions{})
	bad := sample("a", 1, 1)
	bad[len(bad)-1] ^= 1 // JetStream's checksum covers the damage: it came from above
	appended(t, log, bad, 1)
	log.Close()
	if n := stored(t, copied(t, dir), EmbeddedOptions{off: guards{verify: true}}); n != 1 {
		t.Errorf("without the guard %d envelopes", n)
	}
	refused(t, dir)
}

func TestSecondProcess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	log := openedEmbedded(t, dir, EmbeddedOptions{})
	defer log.Close()
	refused(t, dir)
	second, err := OpenEmbedded(t.Context(), dir, EmbeddedOptions{off: guards{lock: true}})
	if err != nil {
		t.Fatalf("without the lock: %v", err)
	}
	// Both think that position 1 is theirs, and both acknowledge it.
	appended(t, log, sample("a", 1, 1), 1)
	appended(t, second, sample("b", 1, 1), 1)
	second.Close()
}

func TestMarkIsMissing(t *testing.T) {
	dir := filled(t, 3)
	if err := os.Remove(filepath.Join(dir, markName)); err != nil {
		t.Fatal(err)
	}
	refused(t, dir)
}

func TestReadyIsMissing(t *testing.T) {
	dir := filled(t, 3)
	if err := os.Remove(filepath.Join(dir, readyName)); err != nil {
		t.Fatal(err)
	}
	refused(t, dir)
}

func TestOtherVersion(t *testing.T) {
	dir := filled(t, 3)
	if err := os.WriteFile(filepath.Join(dir, readyName), []byte("honed log 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, dir)
}

// TestInterruptedBegin: what a first start left unfinished is made again.
func TestInterruptedBegin(t *testing.T) {
	dir := filled(t, 3)
	if err := os.Remove(filepath.Join(dir, readyName)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, beginName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if n := stored(t, dir, EmbeddedOptions{}); n != 0 {
		t.Errorf("%d envelopes", n)
	}
}

func TestTornMark(t *testing.T) {
	dir := filled(t, 9)
	path := filepath.Join(dir, markName)
	m, err := openMark(path)
	if err != nil {
		t.Fatal(err)
	}
	m.f.Close()
	if m.written != 9 {
		t.Errorf("after a clean stop the mark is at %d, want 9", m.written)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	slot := int((m.generation+1)%2) * markSlots
	b[slot+3] ^= 1 // the newer slot
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if m, err = openMark(path); err != nil {
		t.Fatal(err)
	}
	m.f.Close()
	if m.written >= 9 {
		t.Errorf("a torn mark reads as %d", m.written)
	}
	if n := stored(t, dir, EmbeddedOptions{}); n != 9 {
		t.Errorf("%d envelopes", n)
	}
}

// TestReserve: the log says no before the disk does, and goes on once there is room.
func TestReserve(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	free, err := freeSpace(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	log := openedEmbedded(t, dir, EmbeddedOptions{Reserve: int64(2 * free)})
	defer log.Close()
	for range 2 {
		if _, err := log.Append(t.Context(), sample("a", 1, 1)); !errors.Is(err, ErrNoSpace) {
			t.Fatalf("got %v", err)
		}
	}
	log.o.Reserve = 1
	appended(t, log, sample("a", 1, 1), 1)
	log.o.Reserve, log.o.off.reserve = int64(2*free), true
	appended(t, log, sample("a", 2, 1), 2) // without the guard
}

func TestMaxBytes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	one := sample("a", 1, 1)
	log := openedEmbedded(t, dir, EmbeddedOptions{MaxBytes: int64(3*len(one) + 1)})
	for i := range uint64(3) {
		appended(t, log, one, i+1)
	}
	if _, err := log.Append(t.Context(), one); !errors.Is(err, ErrNoSpace) {
		t.Errorf("got %v", err)
	}
	log.Close()
	log = openedEmbedded(t, dir, EmbeddedOptions{MaxBytes: int64(3*len(one) + 1)})
	if _, err := log.Append(t.Context(), one); !errors.Is(err, ErrNoSpace) {
		t.Errorf("after a restart: %v", err)
	}
	log.Close()
}

// TestUnknownOutcome: an Append that is given up may have been stored, so the log ends there.
func TestUnknownOutcome(t *testing.T) {
	log := openedEmbedded(t, filepath.Join(t.TempDir(), "data"), EmbeddedOptions{})
	defer log.Close()
	ctx, cancel := context.WithCancel(t.Context())
	log.server.Shutdown() // nobody answers any more
	cancel()
	log.turn.mu.Lock()
	err := log.stream.publish(ctx, sample("a", 1, 1), 1, true, "")
	err = log.turn.breaks(err)
	log.turn.mu.Unlock()
	if !errors.Is(err, ErrBroken) {
		t.Errorf("got %v", err)
	}
	if _, err := log.Append(t.Context(), sample("a", 1, 1)); !errors.Is(err, ErrBroken) {
		t.Errorf("afterwards: %v", err)
	}
}

// TestNewBlocks: the log knows which file JetStream writes, across files and restarts.
func TestNewBlocks(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	log := openedEmbedded(t, dir, EmbeddedOptions{})
	big := sample("a", 1, 6000)
	for i := range uint64(24) {
		appended(t, log, big, i+1)
		if i == 12 {
			log.Close()
			log = openedEmbedded(t, dir, EmbeddedOptions{})
		}
	}
	defer log.Close()
	files, err := filepath.Glob(filepath.Join(dir, blockFolder, "*.blk"))
	if err != nil || len(files) < 3 || log.block != uint64(len(files)) {
		t.Errorf("%d files, the log knows of %d (%v)", len(files), log.block, err)
	}
}

// TestReadsAreWhole reads more than one batch.
func TestReadsAreWhole(t *testing.T) {
	log := openedEmbedded(t, filepath.Join(t.TempDir(), "data"), EmbeddedOptions{off: guards{fsync: true}})
	defer log.Close()
	const n = 3*batchMessages + 7
	for i := range uint64(n) {
		appended(t, log, sample("a", i+1, 1), i+1)
	}
	for i, b := range contents(t, log, 5) {
		if !bytes.Equal(b, sample("a", uint64(i)+5, 1)) {
			t.Fatalf("position %d has other bytes", i+5)
		}
	}
}

// TestGoroutines: a closed log leaves none behind.
func TestGoroutines(t *testing.T) {
	filled(t, 3) // what the NATS packages start once and keep
	before := runtime.NumGoroutine()
	filled(t, 3)
	deadline := time.Now().Add(20 * time.Second)
	for runtime.NumGoroutine() > before {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, %d before\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
		runtime.Gosched()
	}
}

func BenchmarkAppend(b *testing.B) {
	envelope := sample("client-1", 1, 530)
	for _, kind := range []string{"file", "embedded", "embedded, through a client", "embedded, not synced"} {
		b.Run(kind, func(b *testing.B) {
			var log Log
			var err error
			if kind == "file" {
				log, err = OpenFile(filepath.Join(b.TempDir(), "log"))
			} else {
				off := guards{fsync: kind == "embedded, not synced", direct: kind == "embedded, through a client"}
				log, err = OpenEmbedded(b.Context(), filepath.Join(b.TempDir(), "data"), EmbeddedOptions{off: off})
			}
			if err != nil {
				b.Fatal(err)
			}
			defer log.Close()
			b.ResetTimer()
			for range b.N {
				if _, err := log.Append(b.Context(), envelope); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*530/b.Elapsed().Seconds(), "records/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkAppendPaired appends to a file and to an embedded log in turn, so that both meet the
// same disk, and compares medians.
func BenchmarkAppendPaired(b *testing.B) {
	file, err := OpenFile(filepath.Join(b.TempDir(), "log"))
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	embedded, err := OpenEmbedded(b.Context(), filepath.Join(b.TempDir(), "data"), EmbeddedOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer embedded.Close()
	envelope := sample("client-1", 1, 530)
	var took [2][]time.Duration
	for range b.N {
		for i, log := range []Log{file, embedded} {
			began := time.Now()
			if _, err := log.Append(b.Context(), envelope); err != nil {
				b.Fatal(err)
			}
			took[i] = append(took[i], time.Since(began))
		}
	}
	median := func(all []time.Duration) float64 {
		slices.Sort(all)
		return float64(all[len(all)/2].Microseconds())
	}
	b.ReportMetric(median(took[0]), "file-µs")
	b.ReportMetric(median(took[1]), "embedded-µs")
	b.ReportMetric(median(took[1])/max(median(took[0]), 1), "ratio")
	b.ReportMetric(0, "ns/op")
}
