package journal

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/hone-go/hone/gateway/internal/natstest"
	"github.com/hone-go/hone/internal/testrun"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// natsFolder has a real nats-server write envelopes as an earlier honed did, and kills it.
func natsFolder(t *testing.T, all [][]byte) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "data")
	port := freePorts(t, 1)[0]
	n := &node{binary: natstest.Binary(t), url: fmt.Sprintf("nats://127.0.0.1:%d", port), config: filepath.Join(t.TempDir(), "conf")}
	text := fmt.Sprintf("listen: \"127.0.0.1:%d\"\njetstream { store_dir: %q, sync_interval: always, max_file: 1T }\n", port, filepath.Join(dir, storeName))
	if err := os.WriteFile(n.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	n.start(t)
	defer n.kill()
	nc, err := nats.Connect(n.url, nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(retryPause))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	const name = "LOG"
	config := jetstream.StreamConfig{
		Name: name, Subjects: []string{oldSubject}, Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew,
		Storage: jetstream.FileStorage, Replicas: 1, MaxMsgs: -1, MaxBytes: -1, MaxMsgSize: -1, AllowDirect: true, DenyDelete: true, DenyPurge: true,
	}
	for {
		if _, err = js.CreateStream(t.Context(), config); err == nil {
			break
		}
		if err := pause(t.Context(), retryPause); err != nil {
			t.Fatal(err)
		}
	}
	for i, envelope := range all {
		m := &nats.Msg{Subject: oldSubject, Data: envelope, Header: nats.Header{jetstream.ExpectedLastSeqHeader: {strconv.Itoa(i)}}}
		ack, err := js.PublishMsg(t.Context(), m)
		if err != nil || ack.Sequence != uint64(i)+1 {
			t.Fatal(ack, err)
		}
	}
	n.kill()
	if err := os.WriteFile(filepath.Join(dir, readyName), []byte("honed log 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	markOf(t, dir, uint64(len(all)))
	return dir
}

// partRecords is how many records an envelope of largeEnvelopes needs at least for more than one block or part.
const partRecords = 3000

// largeEnvelopes returns envelopes of which half have that many records.
func largeEnvelopes(records int) [][]byte {
	all := oldEnvelopes(60)
	for i := range 60 {
		all = append(all, sample("large", uint64(i*records)+1, records+i))
	}
	return append(all, sample("last", 1, 1))
}

// TestOldLargeFile reads a plain file of several parts, and one that is damaged where a part begins.
func TestOldLargeFile(t *testing.T) {
	t.Parallel() // it waits for the disk
	all := largeEnvelopes(partRecords)
	dir := oldFolder(t, "plain", all)
	log, err := openOld(t.Context(), dir, nil, Range{})
	if err != nil || len(log.places) < 3 {
		t.Fatal(log, err)
	}
	if lost := sameEnvelopes(t, log, all); len(lost) > 0 {
		t.Fatal(lost)
	}
	step := testrun.Sized(7, 1)
	begin := rand.IntN(step)
	t.Logf("reads one position of every %d, from %d on", step, begin+1)
	for pos := uint64(begin); pos < uint64(len(all)); pos += uint64(step) {
		got := pos
		if err := log.Read(t.Context(), pos+1, func(uint64, []byte) error { got++; return nil }); err != nil || got != uint64(len(all)) {
			t.Fatal(pos, got, err)
		}
	}
	path := filepath.Join(dir, plainName)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int64{log.places[1].at, log.places[1].at + 13, log.places[2].at - 9, log.places[2].at + 50} {
		hit := bytes.Clone(b)
		hit[at] ^= 2
		if err := os.WriteFile(path, hit, 0o600); err != nil {
			t.Fatal(err)
		}
		log, err := OpenReader(t.Context(), dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		if lost := sameEnvelopes(t, log, all); len(lost) > 1 {
			t.Error(at, lost)
		}
	}
}

// TestOldNATS reads and migrates what a real nats-server wrote, in several blocks, also when the last write is
// torn.
func TestOldNATS(t *testing.T) {
	t.Parallel() // it waits more than it works
	all := largeEnvelopes(partRecords)
	written := os.DirFS(natsFolder(t, all))
	for _, torn := range []int{0, 1, 100} {
		dir := filepath.Join(t.TempDir(), "data")
		if err := os.CopyFS(dir, written); err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join(dir, blockFolder, "*.blk"))
		if err != nil || len(files) < 2 {
			t.Fatal(files, err)
		}
		newest := filepath.Join(dir, blockFolder, fmt.Sprintf("%d.blk", len(files)))
		want := all
		if torn > 0 {
			info, err := os.Stat(newest)
			if err == nil {
				err = os.Truncate(newest, info.Size()-int64(torn))
			}
			if err != nil {
				t.Fatal(err)
			}
			want = all[:len(all)-1]
			markOf(t, dir, uint64(len(want)))
		}
		log, err := OpenReader(t.Context(), dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		if lost := sameEnvelopes(t, log, want); len(lost) > 0 {
			t.Fatal(lost)
		}
		if torn == 0 { // the blocks of the other tests are like these
			b, err := os.ReadFile(filepath.Join(dir, blockFolder, "1.blk"))
			if err != nil {
				t.Fatal(err)
			}
			made := blockRecordOf(1, all[0])
			copy(made[12:20], b[12:20])                                      // the time
			copy(made[len(made)-blockSum:], b[len(made)-blockSum:len(made)]) // the checksum
			if !bytes.Equal(made, b[:len(made)]) {
				t.Errorf("nats-server writes %q, the tests %q", b[:len(made)], made)
			}
		}
		migrated(t, dir, want, folderTree(t, dir))
	}
}
