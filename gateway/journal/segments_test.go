package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/gateway/internal/writer"
	"github.com/hone-go/hone/internal/testrun"
)

func openedSegments(t *testing.T, dir string, o SegmentsOptions) *Segments {
	t.Helper()
	log, err := OpenSegments(dir, o)
	must(t, err)
	t.Cleanup(func() { log.Close() })
	return log
}

// killed copies a log of n envelopes as a kill -9 leaves it: not sealed, and with an old mark if fresh
// is false.
func killed(t *testing.T, n int, fresh bool) (dir string) {
	t.Helper()
	from := filepath.Join(t.TempDir(), "data")
	log := openedSegments(t, from, SegmentsOptions{size: 4 << 10})
	for i := range n {
		appended(t, log, sample("client", uint64(i)+1, 1), uint64(i)+1)
	}
	dir = copied(t, from)
	if fresh {
		markOf(t, dir, uint64(n))
	}
	return dir
}

// copied returns a copy of a folder.
func copied(t *testing.T, from string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "data")
	must(t, os.CopyFS(dir, os.DirFS(from)))
	return dir
}

// edit changes bytes of a file.
func edit(t *testing.T, file string, change func(b []byte)) {
	t.Helper()
	b, err := os.ReadFile(file)
	must(t, err)
	change(b)
	must(t, os.WriteFile(file, b, 0o600))
}

func segmentFiles(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"+segmentSuffix))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	return files
}

// tree returns all files of a folder, and of those in it, with their content.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			var b []byte
			b, err = os.ReadFile(path)
			name, _ := filepath.Rel(dir, path)
			all[name] = string(b)
		}
		return err
	})
	must(t, err)
	return all
}

// markOf writes a mark as a log leaves it that has reached a position.
func markOf(t *testing.T, dir string, pos uint64) {
	t.Helper()
	b := make([]byte, 2*writer.MarkSlots)
	copy(b, writer.MarkSlot(1, pos-1))
	copy(b[writer.MarkSlots:], writer.MarkSlot(2, pos))
	must(t, os.WriteFile(filepath.Join(dir, writer.MarkName), b, 0o600))
}

// says reports whether the error of an operator's command has a text, which is tested here.
func says(err error, text string) bool {
	said := fmt.Sprint(err)
	return strings.Contains(said, text)
}

// flipClasses are the kinds of bytes of a log, and where they are in a segment.
var flipClasses = map[string]func(b []byte) [][2]int{
	"header":     func([]byte) [][2]int { return [][2]int{{0, segmentHead}} },
	"frame head": func(b []byte) [][2]int { return frames(b, 0, frameHead) },
	"envelope":   func(b []byte) [][2]int { return frames(b, frameHead, 0) },
	"index":      func(b []byte) [][2]int { return footers(b, 0, len(b)-segmentTail) },
	"trailer":    func(b []byte) [][2]int { return footers(b, len(b)-segmentTail, len(b)) },
	"mark":       nil,
	"name":       nil,
}

// frames returns the ranges of the frames of a segment, from offset from to offset to of each; 0: to its
// end.
func frames(b []byte, from, to int) (all [][2]int) {
	for at := segmentHead; at+frameHead < len(b); {
		length := int(binary.BigEndian.Uint32(b[at:]))
		if whole(b[at+frameHead:min(at+frameHead+length, len(b))]) != nil {
			break
		}
		end := at + frameHead + length
		if to > 0 {
			all = append(all, [2]int{at + from, at + to})
		} else {
			all = append(all, [2]int{at + from, end})
		}
		at = end
	}
	return all
}

// footers returns the part of a sealed segment that is after the frames and between two offsets.
func footers(b []byte, from, to int) [][2]int {
	if string(b[len(b)-segmentTail:][:4]) != trailerMagic {
		return nil
	}
	ends := frames(b, frameHead, 0)
	return [][2]int{{max(from, ends[len(ends)-1][1]), to}}
}

// TestSegmentFlips flips one bit of each kind of byte of a log. A reader gets every envelope but at most
// the one that was hit, which is named, and no byte changes. A writer opens the log, or refuses it, and
// loses no more. A segment of another name is missing, which is named or refused.
func TestSegmentFlips(t *testing.T) {
	t.Parallel() // it waits for fsyncs
	const n = 60
	source := killed(t, n, true)
	files := segmentFiles(t, source)
	if len(files) < 3 {
		t.Fatal(files)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	for _, class := range slices.Sorted(maps.Keys(flipClasses)) {
		ranges := flipClasses[class]
		lost, named, unnoticed, refused := 0, 0, 0, 0
		flips := testrun.Sized(8, 400)
		for range flips {
			dir := copied(t, source)
			what := flipped(t, rng, dir, filepath.Base(files[rng.IntN(len(files))]), class, ranges)
			before := tree(t, dir)
			log, err := openSegments(dir, SegmentsOptions{}, true)
			missing := 0
			if err != nil {
				var refusal *Refusal
				if class != "name" || !errors.As(err, &refusal) {
					t.Fatalf("%s: %v", what, err)
				}
			} else {
				var clean bool
				missing, clean = survivors(t, log, n, what, class == "name")
				log.Close()
				switch {
				case missing > 0:
					lost++
				case !clean:
					named++
				default:
					unnoticed++
				}
			}
			if now := tree(t, dir); fmt.Sprint(now) != fmt.Sprint(before) {
				t.Fatalf("%s: reading changed the log", what)
			}
			if writer, err := OpenSegments(dir, SegmentsOptions{}); err != nil {
				var refusal *Refusal
				if refused++; !errors.As(err, &refusal) {
					t.Errorf("%s: %v", what, err)
				}
			} else {
				again, _ := survivors(t, writer, n, what, class == "name")
				if appended(t, writer, sample("client", n+1, 1), n+1); again > missing {
					t.Errorf("%s: opening lost more: %d, then %d", what, missing, again)
				}
				writer.Close()
			}
			os.RemoveAll(dir)
		}
		t.Logf("%s, %d flips: %d lost what was hit, %d lost nothing and were named, %d cost nothing, %d refused by a writer",
			class, flips, lost, named, unnoticed, refused)
		if (class == "envelope") != (lost > 0) && class != "name" || unnoticed > 0 && class != "frame head" && class != "mark" && class != "name" || refused > 0 && class != "name" {
			t.Errorf("%s: not as it should be", class)
		}
	}
}

// flipped flips one bit of a class in one segment, or in the mark.
func flipped(t *testing.T, rng *rand.Rand, dir, file, class string, ranges func([]byte) [][2]int) (what string) {
	t.Helper()
	path := filepath.Join(dir, file)
	switch class {
	case "name":
		name := []byte(file)
		for bytes.ContainsRune(name, '/') || string(name) == file {
			copy(name, file)
			name[rng.IntN(len(name))] ^= 1 << rng.IntN(7)
		}
		if _, err := os.Lstat(filepath.Join(dir, string(name))); err == nil {
			return flipped(t, rng, dir, file, class, ranges)
		}
		must(t, os.Rename(path, filepath.Join(dir, string(name))))
		return fmt.Sprintf("%s is now %q", file, name)
	case "mark":
		path = filepath.Join(dir, writer.MarkName)
		ranges = func([]byte) [][2]int {
			return [][2]int{{0, writer.MarkSize}, {writer.MarkSlots, writer.MarkSlots + writer.MarkSize}}
		}
	}
	b, err := os.ReadFile(path)
	must(t, err)
	where := ranges(b)
	if len(where) == 0 { // the last segment has no footer
		return flipped(t, rng, dir, filepath.Base(segmentFiles(t, dir)[rng.IntN(2)]), class, ranges)
	}
	r := where[rng.IntN(len(where))]
	at := r[0] + rng.IntN(r[1]-r[0])
	b[at] ^= 1 << rng.IntN(8)
	must(t, os.WriteFile(path, b, 0o600))
	return fmt.Sprintf("a flip of %s, %s byte %d", class, filepath.Base(path), at)
}

// survivors checks all envelopes of a log, and returns how many are lost and whether Verify is content.
func survivors(t *testing.T, log *Segments, n int, what string, many bool) (lost int, clean bool) {
	t.Helper()
	next, _, err := log.Bounds()
	lost = int(next - 1) // a log does not know whether its beginning was trimmed; gateway.Check does
	if err != nil || lost > 0 && !many {
		t.Errorf("%s: it begins at %d, %v", what, next, err)
	}
	begins := lost
	err = ReadPast(t.Context(), log, 0, func(pos uint64, b []byte) error {
		if pos != next || !bytes.Equal(b, sample("client", pos, 1)) {
			return fmt.Errorf("position %d, want %d", pos, next)
		}
		next++
		return nil
	}, func(d *Damage) error {
		lost += int(d.Last + 1 - d.First)
		if next = d.Last + 1; !many && (d.First != d.Last || d.File == "") {
			return d
		}
		return nil
	})
	if err != nil || next != uint64(n)+1 || lost > 1 && !many {
		t.Errorf("%s: %v; read up to %d, %d lost", what, err, next-1, lost)
	}
	err = log.Verify(t.Context(), 0, nil)
	var d *Damage
	if errors.As(err, &d) != (lost > begins) {
		t.Errorf("%s: %d lost, Verify: %v", what, lost, err)
	}
	return lost, err == nil
}

// TestSegmentTails cuts a killed log short everywhere within its last frame: that is a torn write, which
// is cut off and kept. With a mark that has seen it, the log is refused, unless the loss is accepted.
func TestSegmentTails(t *testing.T) {
	t.Parallel() // it waits for fsyncs
	const n = 8
	for _, fresh := range []bool{false, true} {
		source := killed(t, n, fresh)
		files := segmentFiles(t, source)
		last := filepath.Base(files[len(files)-1])
		content := tree(t, source)[last]
		frame := frameHead + len(sample("client", n, 1))
		for cut := 1; cut < frame-3; cut += 9 { // what is left is not only the zeros that its length begins with
			dir := copied(t, source)
			must(t, os.WriteFile(filepath.Join(dir, last), []byte(content[:len(content)-cut]), 0o600))
			var logged bytes.Buffer
			logger := slog.New(slog.NewTextHandler(&logged, nil))
			log, err := OpenSegments(dir, SegmentsOptions{Logger: logger})
			if fresh {
				var refusal *Refusal
				if !errors.As(err, &refusal) {
					t.Fatalf("cut by %d: %v", cut, err)
				}
				log, err = OpenSegments(dir, SegmentsOptions{AcceptLoss: Range{n, n}, Logger: logger})
			}
			if err != nil {
				t.Fatalf("cut by %d: %v", cut, err)
			}
			if said := logged.String(); !strings.Contains(said, "or damage of the last second") || strings.Contains(said, "acknowledged") {
				t.Errorf("cut by %d: %s", cut, said) // nobody knows whether it was
			}
			want := uint64(n)
			if fresh {
				want++
			}
			appended(t, log, sample("client", want, 1), want)
			log.Close()
			log = openedSegments(t, dir, SegmentsOptions{})
			if _, next, err := log.Bounds(); next != want+1 || err != nil {
				t.Errorf("next %d, %v", next, err)
			}
			log.Close()
			if torn, err := filepath.Glob(filepath.Join(dir, tornPrefix+"*")); len(torn) != 1 || err != nil {
				t.Errorf("cut by %d: torn files %q, %v", cut, torn, err)
			}
		}
	}
}

// TestSegmentFiles deletes, swaps, duplicates and truncates whole files: no wrong envelope is served, and
// what is missing is named or refused.
func TestSegmentFiles(t *testing.T) {
	t.Parallel() // it waits for fsyncs
	const n = 90
	source := killed(t, n, true)
	for name, harm := range map[string]func(files []string) error{
		"deleted":    func(f []string) error { return os.Remove(f[1]) },
		"tail":       func(f []string) error { return os.Remove(f[len(f)-1]) },
		"duplicated": func(f []string) error { return copyFile(f[0], f[1]) },
		"emptied":    func(f []string) error { return os.Truncate(f[1], 0) },
		"truncated":  func(f []string) error { return os.Truncate(f[1], 1000) },
		"swapped": func(f []string) error {
			return errors.Join(os.Rename(f[0], f[0]+"x"), os.Rename(f[1], f[0]), os.Rename(f[0]+"x", f[1]))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := copied(t, source)
			must(t, harm(segmentFiles(t, dir)))
			log, err := OpenSegments(dir, SegmentsOptions{})
			if err != nil {
				t.Log(err)
				var refusal *Refusal
				if !errors.As(err, &refusal) {
					t.Error(err)
				}
				if log, err = openSegments(dir, SegmentsOptions{}, true); err != nil {
					return
				}
			}
			defer log.Close()
			first, _, err := log.Bounds()
			lost := int(first - 1) // gateway.Check knows that nobody trimmed them
			must(t, err)
			err = ReadPast(t.Context(), log, 0, func(pos uint64, b []byte) error {
				if !bytes.Equal(b, sample("client", pos, 1)) {
					return fmt.Errorf("position %d has another envelope", pos)
				}
				return nil
			}, func(d *Damage) error {
				t.Log(d)
				lost += int(d.Last + 1 - d.First)
				return nil
			})
			if err != nil || lost == 0 {
				t.Errorf("%v, %d lost", err, lost)
			}
		})
	}
}

func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o600)
}

// TestUnsealedDamage: what is damaged in a segment that a kill has left unsealed is named with its offset and its
// clients, by a reader, by a backup, by a writer, and once that has sealed the segment.
func TestUnsealedDamage(t *testing.T) {
	const n = 8
	source := killed(t, n, true)
	third := frames([]byte(tree(t, source)[segmentName(1)]), 0, 0)[2]
	at, data := third[0], third[1]-trailerSize-1
	for name, c := range map[string]struct {
		harm func(b []byte)
		want Damage
	}{
		"an envelope": {func(b []byte) { b[data] ^= 1 }, Damage{First: 3, Last: 3, Clients: []string{"client"}}},
		"a frame":     {func(b []byte) { b[at] ^= 1; b[data] ^= 1 }, Damage{First: 3, Last: 3, Clients: []string{"client"}}},
		"two frames":  {func(b []byte) { clear(b[at : 2*third[1]-at]) }, Damage{First: 3, Last: 4}},
	} {
		t.Run(name, func(t *testing.T) {
			dir, to := copied(t, source), filepath.Join(t.TempDir(), "backup")
			file := segmentFiles(t, dir)[0]
			edit(t, file, c.harm)
			c.want.File, c.want.Offset, c.want.Err = file, int64(at), errEnvelope
			named := func(who string, err error) {
				t.Helper()
				if d, is := errors.AsType[*Damage](err); !is || !reflect.DeepEqual(*d, c.want) {
					t.Errorf("%s: %v; want %v", who, err, &c.want)
				}
			}
			nothing := func(uint64, []byte) error { return nil }
			reader, err := openSegments(dir, SegmentsOptions{}, true)
			must(t, err)
			named("a reader", reader.Read(t.Context(), 0, nothing))
			reader.Close()
			_, err = Backup(t.Context(), dir, to, BackupOptions{})
			named("a backup", err)
			writer := openedSegments(t, dir, SegmentsOptions{})
			named("a writer", writer.Read(t.Context(), 0, nothing))
			must(t, writer.Close())
			named("once it is sealed", openedSegments(t, dir, SegmentsOptions{}).Read(t.Context(), 0, nothing))
		})
	}
}

// growing is a segment whose first read sees what a write has done up to a byte.
type growing struct {
	whole    []byte
	seen     int // by the first read: written
	prepared int // and zeros up to here
	reads    int
}

func (g *growing) ReadAt(b []byte, at int64) (n int, err error) {
	from := g.whole
	if g.reads++; g.reads == 1 {
		from = append(slices.Clone(g.whole[:g.seen]), make([]byte, g.prepared-g.seen)...)
	}
	return bytes.NewReader(from).ReadAt(b, at)
}

// TestScanBesideAWriter: what is being written while it is read is not called damaged, wherever the write is.
func TestScanBesideAWriter(t *testing.T) {
	id := logID{1}
	b := id.header(1, 0)
	var ends []int
	for pos := uint64(1); pos <= 4; pos++ {
		b = append(b, id.frame(nil, pos, sample("client", pos, 1))...)
		ends = append(ends, len(b))
	}
	for seen := ends[1]; seen <= ends[2]; seen++ {
		s := segment{first: 1, size: int64(len(b))}
		found, err := s.scan(&growing{whole: b, seen: seen, prepared: ends[2]}, &id)
		if err != nil || len(found.slots) != 4 || len(found.holes) != 0 || found.heads != 0 {
			t.Fatalf("written up to byte %d of %d to %d: %+v, %v", seen, ends[1], ends[2], found, err)
		}
	}
}

// TestGapsKeepPositions: what follows positions whose loss was accepted keeps its positions, in a log that is killed
// once more and in one whose index is damaged, and no damage is found between two frames.
func TestGapsKeepPositions(t *testing.T) {
	t.Parallel() // it waits for fsyncs
	const n = 8
	dir := killed(t, n, true)
	file := segmentFiles(t, dir)[0]
	ends := frames([]byte(tree(t, dir)[filepath.Base(file)]), 0, 0)
	must(t, os.Truncate(file, int64(ends[n-4][1])))
	log := openedSegments(t, dir, SegmentsOptions{AcceptLoss: Range{n - 2, n}})
	for pos := uint64(n + 1); pos <= n+3; pos++ {
		appended(t, log, sample("client", pos, 1), pos)
	}
	again := copied(t, dir)
	must(t, log.Close())
	edit(t, file, func(b []byte) { b[len(b)-segmentTail-1] ^= 1 }) // of the index
	for _, dir := range []string{again, dir} {
		log, err := OpenSegments(dir, SegmentsOptions{})
		must(t, err)
		next := uint64(1)
		err = ReadPast(t.Context(), log, 0, func(pos uint64, b []byte) error {
			if pos != next || !bytes.Equal(b, sample("client", pos, 1)) {
				t.Errorf("position %d, want %d, or it has another's envelope", pos, next)
			}
			next = pos + 1
			return nil
		}, func(d *Damage) error {
			if next = d.Last + 1; d.First != n-2 || d.Last != n || d.Err != errMissing {
				t.Error(d)
			}
			return nil
		})
		if err != nil || next != n+4 {
			t.Errorf("read up to %d: %v", next-1, err)
		}
		log.Close()
	}
}

// TestSegmentsTakenAway deletes a segment of a running log. Reading names what is lost, and if Append
// writes to it the log fails.
func TestSegmentsTakenAway(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	log := openedSegments(t, dir, SegmentsOptions{size: 4 << 10})
	for pos := uint64(1); pos <= 50; pos++ {
		appended(t, log, sample("client", pos, 1), pos)
	}
	files := segmentFiles(t, dir)
	must(t, os.Remove(files[0]))
	var d *Damage
	if err := log.Verify(t.Context(), 0, nil); !errors.As(err, &d) || d.First != 1 || d.Last+1 != log.all[1].first {
		t.Errorf("%+v, %v", d, err)
	}
	if err := log.keep(); err != nil {
		t.Errorf("the last segment is there: %v", err)
	}
	must(t, os.Remove(files[len(files)-1]))
	var refusal *Refusal
	if err := log.keep(); !errors.As(err, &refusal) {
		t.Errorf("the last segment is deleted: %v", err)
	}
}

// TestLastByteIsZero: the zeros behind the last frame are not part of it, but those at its own end are.
func TestLastByteIsZero(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	log := openedSegments(t, dir, SegmentsOptions{})
	envelope := sample("client", 1, 1)
	for seq := uint64(2); envelope[len(envelope)-1] != 0; seq++ {
		envelope = sample("client", seq, 1)
	}
	appended(t, log, envelope, 1)
	must(t, os.Truncate(segmentFiles(t, dir)[0], 1<<20))
	other, err := openSegments(dir, SegmentsOptions{}, true)
	must(t, err)
	defer other.Close()
	if _, next, err := other.Bounds(); next != 2 || err != nil {
		t.Errorf("next position %d, %v", next, err)
	}
}

// TestMeasure: Measure knows where segments begin and how large the log is from there on, and Trim deletes up
// to exactly such a place.
func TestMeasure(t *testing.T) {
	log, err := OpenSegments(t.TempDir(), SegmentsOptions{size: 16 << 10})
	must(t, err)
	defer log.Close()
	for i := range 100 {
		works(t)(log.Append(t.Context(), sample("a", uint64(8*i+1), 8)))
	}
	measure, err := log.Measure(t.Context())
	must(t, err)
	size := log.Status().Size
	begins, after := measure(1)
	if begins != 1 || after != size {
		t.Errorf("from position 1: %d, %d bytes; the log has %d", begins, after, size)
	}
	segments := map[uint64]bool{}
	for pos := uint64(2); pos <= 101; pos++ {
		b, a := measure(pos)
		if b > pos || b < begins || a > after || pos == 101 && a != 0 {
			t.Errorf("position %d: %d, %d bytes, after %d, %d bytes", pos, b, a, begins, after)
		}
		begins, after = b, a
		segments[b] = true
	}
	if len(segments) < 5 {
		t.Errorf("%d segments", len(segments))
	}
	begins, after = measure(60)
	must(t, log.Trim(t.Context(), begins))
	if first, _, _ := log.Bounds(); first != begins {
		t.Errorf("trimmed to %d, the log begins at %d", begins, first)
	}
	if size := log.Status().Size; size < after {
		t.Errorf("%d bytes are left, at least %d were to be", size, after)
	}
}

// TestLockIsWaitedFor: a start right after a kill -9 finds a lock that the kernel has not let go of yet.
func TestLockIsWaitedFor(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	log, err := OpenSegments(dir, SegmentsOptions{})
	must(t, err)
	closed := make(chan error, 1)
	time.AfterFunc(writer.LockWait/10, func() { closed <- log.Close() })
	again, err := OpenSegments(dir, SegmentsOptions{})
	must(t, err)
	reports(t, errors.Join(<-closed, again.Close()))
}
