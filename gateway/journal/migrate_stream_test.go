package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hone-go/hone/gateway/internal/natstest"
)

// TestMigrateToStream copies a trimmed local log and then its copy, with interruptions: the positions and
// the bytes stay, the old stream is sealed, and no honed opens a copy that is not finished.
func TestMigrateToStream(t *testing.T) {
	t.Parallel() // it waits for a nats-server
	const n, begins, whole = 120, 60, 1 << 20
	url, dir := natstest.Start(t, ""), filepath.Join(t.TempDir(), "data")
	log := openedSegments(t, dir, SegmentsOptions{size: 4 << 10})
	for i := uint64(1); i <= n; i++ {
		appended(t, log, sample("a", i, 1), i)
	}
	if err := log.Trim(t.Context(), begins); err != nil {
		t.Fatal(err)
	}
	first, _, _ := log.Bounds()
	if first == 1 {
		t.Fatal("nothing was trimmed")
	}
	migrate := func(from, dir, to string, stopAt uint64) error {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		begun, next, err := ClusterOptions{Stream: to, Replicas: 1}.Migrate(ctx, url, from, dir, func(what string, done, all uint64) {
			if what == "copied" && (done == stopAt || done == all && stopAt == whole) {
				cancel()
			}
		})
		if err == nil && (begun != first || next != n+1) {
			t.Errorf("%s%s: migrated %d to %d", from, dir, begun, next)
		}
		return err
	}
	refused := func(what string, err error, says string) {
		t.Helper()
		var refusal *Refusal
		text := fmt.Sprint(err)
		if !errors.As(err, &refusal) || !strings.Contains(text, says) {
			t.Errorf("%s: %v; want … %s …", what, err, says)
		}
	}
	open := func(stream string) error {
		log, err := OpenCluster(t.Context(), url, ClusterOptions{Stream: stream, Replicas: 1})
		if err == nil {
			log.Close()
		}
		return err
	}
	refused("a folder in use", migrate("", dir, "ONE", 0), "is in use by")
	if err := os.Remove(filepath.Join(dir, lockName)); err != nil { // the folder is locked as well
		t.Fatal(err)
	}
	refused("a folder in use", migrate("", dir, "ONE", 0), "is in use by")
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{"", "ONE"} {
		to, folder := "ONE", dir
		if from != "" {
			to, folder = "TWO", ""
		}
		for _, at := range []uint64{10, 10, whole} {
			if err := migrate(from, folder, to, at); !errors.Is(err, context.Canceled) {
				t.Fatalf("interrupted at %d: %v", at, err)
			}
			refused("unfinished", open(to), "has an unfinished copy")
		}
		if err := migrate(from, folder, to, 0); err != nil {
			t.Fatal(err)
		}
		if err := open(to); err != nil {
			t.Error(err)
		}
		refused("again", migrate(from, folder, to, 0), "is not an unfinished copy")
		copied := openedCluster(t, url, ClusterOptions{Stream: to})
		all := contents(t, copied, first)
		for i, b := range all {
			if string(b) != string(sample("a", first+uint64(i), 1)) {
				t.Fatalf("position %d has other bytes", first+uint64(i))
			}
		}
		if uint64(len(all)) != n+1-first {
			t.Errorf("%d envelopes", len(all))
		}
		copied.Close()
	}
	refused("the old stream", open("ONE"), "is sealed")
	sealed, err := OpenCluster(t.Context(), url, ClusterOptions{Stream: "ONE", ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer sealed.Close()
	if err := sealed.Verify(t.Context(), 0, nil); err != nil {
		t.Error(err)
	}
	if err := sealed.stream.publish(t.Context(), sample("a", n+1, 1), n+1, "other-1"); err == nil {
		t.Error("a sealed stream stores an envelope")
	}
	// An unfinished copy with another content.
	other := openedCluster(t, url, ClusterOptions{Stream: "OTHER", first: first, from: "the folder " + dir})
	appended(t, other, sample("a", first, 2), first)
	refused("the last envelope differs", migrate("", dir, "OTHER", 0), "differs from the old log at position")
	appended(t, other, sample("a", first+1, 1), first+1)
	refused("another envelope differs", migrate("", dir, "OTHER", 0), "differs from the old log at position")
	refused("still unfinished", open("OTHER"), "has an unfinished copy")
}
