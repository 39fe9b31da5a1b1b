package journal

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/internal/testrun"
)

// oldEnvelopes returns envelopes of very different sizes. One client sends what looks like
// records of old logs.
func oldEnvelopes(n int) (all [][]byte) {
	rng := rand.New(rand.NewPCG(uint64(n), 7))
	for i := range n {
		var e Encoder
		e.Begin(0)
		for j := range 1 + rng.IntN(4) {
			data := make([]byte, rng.IntN(2<<rng.IntN(9)))
			for b := range data {
				data[b] = byte(rng.Uint32())
			}
			if i > 0 && j == 0 && i%3 == 0 {
				data = blockRecordOf(uint64(i)+2, all[rng.IntN(len(all))])
			}
			if err := e.Record(&Record{Client: fmt.Sprintf("meter-%d", i), Epoch: 1, Seq: uint64(j) + 1, Time: int64(i), Data: data}); err != nil {
				panic(err)
			}
		}
		all = append(all, bytes.Clone(e.Bytes()))
	}
	return all
}

// blockRecordOf returns a record as nats-server 2.15.2 writes it. Its checksum is not a real one.
func blockRecordOf(pos uint64, envelope []byte) []byte {
	headers := fmt.Sprintf("NATS/1.0\r\nNats-Expected-Last-Sequence: %d\r\n\r\n", pos-1)
	size := blockHead + len(oldSubject) + 4 + len(headers) + len(envelope) + blockSum
	b := binary.LittleEndian.AppendUint32(nil, uint32(size)|withHeaders)
	b = binary.LittleEndian.AppendUint64(b, pos)
	b = binary.LittleEndian.AppendUint64(b, 1764111600000000000+pos)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(oldSubject)))
	b = append(b, oldSubject...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(headers)))
	b = append(append(b, headers...), envelope...)
	return binary.BigEndian.AppendUint64(b, pos*0x9e3779b97f4a7c15|1)
}

// oldFolder writes a log as an earlier version did, in "JetStream's format" with several blocks, or "plain".
func oldFolder(t testing.TB, kind string, all [][]byte) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "data")
	write := func(name string, b []byte) {
		t.Helper()
		err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if kind == "plain" {
		write(plainName, bytes.Join(all, nil))
		write(plainLock, []byte("1\n"))
		return dir
	}
	const blocksOf = 9
	var b []byte
	for i, envelope := range all {
		b = append(b, blockRecordOf(uint64(i)+1, envelope)...)
		if i%blocksOf == blocksOf-1 || i == len(all)-1 {
			write(fmt.Sprintf("%s/%d.blk", blockFolder, i/blocksOf+1), b)
			b = nil
		}
	}
	write(readyName, []byte("honed log 1\n"))
	write(lockName, []byte("1\n"))
	markOf(t, dir, uint64(len(all)))
	return dir
}

// says reports whether the error of an operator's command has a text, which is tested here.
func says(err error, text string) bool {
	said := fmt.Sprint(err)
	return strings.Contains(said, text)
}

func markOf(t testing.TB, dir string, pos uint64) {
	t.Helper()
	b := make([]byte, 2*markSlots)
	copy(b, markSlot(3, pos-1))
	copy(b[markSlots:], markSlot(4, pos))
	if err := os.WriteFile(filepath.Join(dir, markName), b, 0o600); err != nil {
		t.Fatal(err)
	}
}

var oldKinds = []string{"JetStream's", "plain"}

// folderTree returns the content of all files of a folder and of those in it.
func folderTree(t testing.TB, dir string) map[string]string {
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
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// sameEnvelopes checks that a log has all envelopes at their positions, but for those in lost.
func sameEnvelopes(t testing.TB, log Reader, all [][]byte) (lost []*Damage) {
	t.Helper()
	first, next, err := log.Bounds()
	if err != nil || first != 1 || next != uint64(len(all))+1 {
		t.Fatalf("positions %d to %d, %v; want 1 to %d", first, next, err, len(all)+1)
	}
	at := uint64(1)
	err = ReadPast(t.Context(), log, 0, func(pos uint64, b []byte) error {
		if pos != at || !bytes.Equal(b, all[pos-1]) {
			return fmt.Errorf("position %d instead of %d, or another envelope", pos, at)
		}
		at++
		return nil
	}, func(d *Damage) error {
		if d.First != at {
			return fmt.Errorf("%v comes instead of position %d", d, at)
		}
		at = d.Last + 1
		lost = append(lost, d)
		return nil
	})
	if err != nil || at != next {
		t.Fatalf("read up to %d of %d: %v", at, next, err)
	}
	return lost
}

// TestOldLogs reads old logs from any position, and migrates them.
func TestOldLogs(t *testing.T) {
	for _, kind := range oldKinds {
		for _, n := range []int{0, 1, 9, 60} {
			all := oldEnvelopes(n)
			dir := oldFolder(t, kind, all)
			if kind != "plain" && n == 0 {
				if err := os.MkdirAll(filepath.Join(dir, blockFolder), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := createMark(filepath.Join(dir, markName), 0); err != nil {
					t.Fatal(err)
				}
			}
			before := folderTree(t, dir)
			log, err := OpenReader(t.Context(), dir, nil)
			if err != nil {
				t.Fatal(kind, n, err)
			}
			if lost := sameEnvelopes(t, log, all); len(lost) > 0 {
				t.Error(kind, n, lost)
			}
			ended, end := context.WithCancel(t.Context())
			end()
			if _, err := OpenReader(ended, dir, nil); n > 0 && !errors.Is(err, context.Canceled) {
				t.Errorf("%s: opened although interrupted: %v", kind, err)
			}
			for from := range uint64(n) {
				got := from
				err := log.Read(t.Context(), from+1, func(pos uint64, b []byte) error {
					if got++; pos != got || !bytes.Equal(b, all[pos-1]) {
						return fmt.Errorf("position %d after %d", pos, got)
					}
					return nil
				})
				if err != nil || got != uint64(n) {
					t.Errorf("%s, from %d: %d %v", kind, from+1, got, err)
				}
			}
			if err := log.Verify(t.Context(), 0, nil); err != nil {
				t.Error(err)
			}
			if fmt.Sprint(folderTree(t, dir)) != fmt.Sprint(before) {
				t.Errorf("%s: reading has changed the folder", kind)
			}
			if _, err := OpenSegments(dir, SegmentsOptions{}); err == nil || !says(err, "honed migrate --data "+dir) {
				t.Errorf("%s: OpenSegments: %v", kind, err)
			}
			migrated(t, dir, all, before)
		}
	}
}

// migrated migrates a folder, twice, and checks the new log and what is kept of the old one.
func migrated(t testing.TB, dir string, all [][]byte, before map[string]string) {
	t.Helper()
	done, err := Migrate(t.Context(), dir, MigrateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if done.Envelopes != uint64(len(all)) || done.First != 1 || done.Last != uint64(len(all)) || done.Old != filepath.Join(dir, oldName) {
		t.Fatalf("%+v", done)
	}
	after := folderTree(t, filepath.Join(dir, oldName))
	for name, content := range before {
		if name != lockName && name != plainLock && after[name] != content {
			t.Fatalf("the old file %s is not the same", name)
		}
	}
	if done, err := Migrate(t.Context(), dir, MigrateOptions{}); err != nil || done.Old != "" {
		t.Fatalf("again: %+v %v", done, err)
	}
	if exists(dir, migratingName) || hasOld(dir) {
		t.Fatal("not all is moved")
	}
	m, err := openMark(filepath.Join(dir, markName), false)
	if err != nil || m.written != uint64(len(all)) {
		t.Fatalf("%+v %v", m, err)
	}
	m.f.Close()
	log, err := OpenSegments(dir, SegmentsOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if lost := sameEnvelopes(t, log, all); len(lost) > 0 {
		t.Fatal(lost)
	}
	if pos, err := log.Append(t.Context(), sample("new", 1, 1)); err != nil || pos != uint64(len(all))+1 {
		t.Fatal(pos, err)
	}
}

// TestOldFlips flips one bit anywhere in an old log. A reader gets every envelope but at most the one that was
// hit, which is named, and no byte changes. Migrate refuses that loss, and leaves the folder as it was, until
// it is accepted.
func TestOldFlips(t *testing.T) {
	t.Parallel() // it waits for fsyncs
	const n = 40
	all := oldEnvelopes(n)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 3))
	flips, named := testrun.Sized(40, 3000), 0
	for i := range flips {
		kind := oldKinds[i%2]
		dir := oldFolder(t, kind, all)
		var files []string
		for name := range folderTree(t, dir) {
			if strings.HasSuffix(name, ".blk") || name == plainName {
				files = append(files, name)
			}
		}
		slices.Sort(files)
		path := filepath.Join(dir, files[rng.IntN(len(files))])
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		bit := rng.IntN(8 * len(b))
		b[bit/8] ^= 1 << (bit % 8)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		before := folderTree(t, dir)
		log, err := OpenReader(t.Context(), dir, nil)
		if err != nil {
			t.Fatalf("%s, bit %d of %s: %v", kind, bit, path, err)
		}
		lost := sameEnvelopes(t, log, all)
		if fmt.Sprint(folderTree(t, dir)) != fmt.Sprint(before) {
			t.Fatal("reading has changed the folder")
		}
		if len(lost) > 1 || len(lost) == 1 && (lost[0].First != lost[0].Last || lost[0].File != path) {
			t.Fatalf("%s, bit %d of %s: %v", kind, bit, path, lost)
		}
		if len(lost) == 0 {
			continue
		}
		named++
		_, err = Migrate(t.Context(), dir, MigrateOptions{})
		accept := fmt.Sprintf("--accept-loss %d-%d", lost[0].First, lost[0].Last)
		if err == nil || !says(err, accept) || exists(dir, migratingName) || exists(dir, oldName) {
			t.Fatalf("%s: %v", kind, err)
		}
		if i%10 > 1 {
			continue
		}
		done, err := Migrate(t.Context(), dir, MigrateOptions{AcceptLoss: Range{lost[0].First, lost[0].Last}})
		if err != nil || done.Lost != 1 || done.Envelopes != n-1 {
			t.Fatalf("%+v %v", done, err)
		}
		made, err := OpenSegments(dir, SegmentsOptions{})
		if err != nil {
			t.Fatal(err)
		}
		again := sameEnvelopes(t, made, append(slices.Clone(all), buried(lost[0].First)))
		if made.Close(); len(again) != 1 || again[0].First != lost[0].First {
			t.Fatal(again)
		}
	}
	t.Logf("%d flips, %d of them cost an envelope, all named", flips, named)
}

// buried returns the envelope that says that an operator has accepted a loss.
func buried(pos uint64) []byte {
	var e Encoder
	e.Begin(0)
	e.Tombstone(pos)
	return e.Bytes()
}

// TestOldEnds: a torn write at the end does not count. One that was there before, as the mark says, is missed.
func TestOldEnds(t *testing.T) {
	const n = 20
	all := oldEnvelopes(n)
	for _, kind := range oldKinds {
		for _, missing := range []bool{false, true} {
			for cut := 1; cut < len(all[n-1]); cut += 1 + len(all[n-1])/9 {
				dir := oldFolder(t, kind, all)
				path := filepath.Join(dir, plainName)
				if kind != "plain" {
					path = filepath.Join(dir, blockFolder, "3.blk")
					if !missing {
						markOf(t, dir, n-1)
					}
				}
				info, err := os.Stat(path)
				if err == nil {
					err = os.Truncate(path, info.Size()-int64(cut))
				}
				if err != nil {
					t.Fatal(err)
				}
				log, err := OpenReader(t.Context(), dir, nil)
				if kind == "plain" || !missing {
					if err != nil {
						t.Fatal(err)
					}
					sameEnvelopes(t, log, all[:n-1])
					continue
				}
				var refusal *Refusal
				if !errors.As(err, &refusal) || !says(err, "ends at position 19 but has reached 20") {
					t.Fatal(err)
				}
				if _, err := Migrate(t.Context(), dir, MigrateOptions{}); !errors.As(err, &refusal) || !says(err, "--accept-loss 20-20") {
					t.Fatal(err)
				}
				done, err := Migrate(t.Context(), dir, MigrateOptions{AcceptLoss: Range{20, 20}})
				if err != nil || done.Last != 20 || done.Lost != 1 {
					t.Fatal(done, err)
				}
				made := openedSegments(t, dir, SegmentsOptions{})
				if lost := sameEnvelopes(t, made, append(slices.Clone(all), buried(20))); len(lost) != 1 || lost[0].First != 20 {
					t.Fatal(lost)
				}
			}
		}
	}
}

// TestOldBlockMissing: the envelopes of a deleted block are named.
func TestOldBlockMissing(t *testing.T) {
	all := oldEnvelopes(40)
	for block, want := range map[int][2]uint64{1: {1, 9}, 2: {10, 18}} {
		dir := oldFolder(t, "JetStream's", all)
		if err := os.Remove(filepath.Join(dir, blockFolder, fmt.Sprint(block, ".blk"))); err != nil {
			t.Fatal(err)
		}
		log, err := OpenReader(t.Context(), dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		if lost := sameEnvelopes(t, log, all); len(lost) != 1 || lost[0].First != want[0] || lost[0].Last != want[1] {
			t.Error(lost)
		}
	}
}
