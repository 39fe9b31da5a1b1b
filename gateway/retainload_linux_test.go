package gateway

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hone-go/hone/gateway/journal"
	"github.com/hone-go/hone/internal/testrun"
)

var retainFor = flag.Duration("retain", 0, "for how long TestRetainUnderLoad writes 60 MB/s, with a limit of 2 GB; 0: some 100 MB, with one of a third of that")

// timed is a log that says how long its appends took.
type timed struct {
	*journal.Segments
	times []time.Duration // of the committer, until the server has ended
}

func (l *timed) Append(ctx context.Context, envelope []byte) (uint64, error) {
	began := time.Now()
	pos, err := l.Segments.Append(ctx, envelope)
	l.times = append(l.times, time.Since(began))
	return pos, err
}

// TestRetainUnderLoad: a log under load stays as small as its limit, and deleting makes appends no slower. The long
// run is go test -run TestRetainUnderLoad -retain 10m -timeout 20m: it first writes for a tenth of that without a
// limit, which takes 3.6 GB, to compare.
func TestRetainUnderLoad(t *testing.T) {
	total, perSecond := testrun.Sized(180_000_000, 300_000_000), 60_000_000
	limit := int64(total / 3)
	if *retainFor > 0 {
		limit = 2_000_000_000
	}
	run := func(retain int64, load time.Duration) (largest int64, p99 time.Duration, trims uint64) {
		dir := filepath.Join(t.TempDir(), "log")
		segments, err := journal.OpenSegments(dir, journal.SegmentsOptions{})
		must(t, err)
		log := &timed{Segments: segments}
		up := serve(t, &Server{Log: log, RetainSize: retain})
		defer os.RemoveAll(dir)
		defer segments.Close()
		defer up.Close()
		ctx, cancel := context.WithTimeout(t.Context(), load+patience)
		defer cancel()
		const clients, size, rounds = 8, 4096, 50 // a second
		data, whole := make([]byte, size), perSecond/clients/size/rounds
		var feeding sync.WaitGroup
		began := time.Now()
		for i := range clients {
			feeding.Go(func() {
				c := &Client{Addrs: []string{up.addr}, ID: fmt.Sprint("c", i)}
				for n := 0; load == 0 && n < total/clients/size || load > 0 && time.Since(began) < load; n++ {
					if due := began.Add(time.Duration(n/whole) * time.Second / rounds); load > 0 && n%whole == 0 {
						<-time.After(time.Until(due))
					}
					if _, err := c.SubmitAsync(ctx, data, nil); err != nil {
						t.Error(err)
						return
					}
				}
				if err := c.Close(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		ended := make(chan struct{})
		go func() { feeding.Wait(); close(ended) }()
		for done := false; !done; {
			select {
			case <-ended:
				done = true
			case <-time.After(200 * time.Millisecond):
			}
			if now := onDisk(t, dir); now > largest {
				largest = now
			}
		}
		st := up.Stats()
		if rate := float64(st.Bytes) / time.Since(began).Seconds(); load > 0 && rate < 50e6 {
			t.Errorf("only %.0f MB/s were written: this proves nothing", rate/1e6)
		}
		if retain > 0 {
			waitFor(t, "a trim", func() bool { return up.Stats().Retention.Trims > 0 })
		}
		st = up.Stats()
		up.Close()
		slices.Sort(log.times)
		p99 = log.times[len(log.times)*99/100]
		t.Logf("limit %d: %d MB written, at most %d MB on disk, %d trims, append p50 %v, p99 %v", retain, st.Bytes>>20, largest>>20, st.Retention.Trims,
			log.times[len(log.times)/2], p99)
		return largest, p99, st.Retention.Trims
	}
	if *retainFor == 0 {
		run(limit, 0) // how large the log becomes depends on the machine: retention is not at once
		return
	}
	_, without, _ := run(0, *retainFor/10)
	largest, with, trims := run(limit, *retainFor)
	if most := limit + limit/10 + 2*64<<20; largest > most {
		t.Errorf("%d bytes are on the disk; want at most %d", largest, most)
	}
	if with > 2*without || trims < 10 {
		t.Errorf("the p99 of appends is %v with retention and %v without; %d trims", with, without, trims)
	}
}

// onDisk returns how much of the disk a folder has.
func onDisk(t *testing.T, dir string) (sum int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		var st syscall.Stat_t
		if err == nil && syscall.Lstat(path, &st) == nil { // else it was deleted
			sum += st.Blocks * 512
		}
		return nil
	})
	must(t, err)
	return sum
}
