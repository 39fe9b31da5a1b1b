package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/gateway"
	"github.com/hone-go/hone/gateway/journal"
	"github.com/hone-go/hone/internal/testrun"
)

// TestNoSpaceIsSaid: a start whose reserve does not fit on the disk says where and why nothing is acknowledged, and so
// does /healthz.
func TestNoSpaceIsSaid(t *testing.T) {
	t.Parallel()
	if !testrun.InNamespace(t) {
		return
	}
	dir := filepath.Join(disk(t, "size=24m"), "log")
	g := startGateway(t, dir, "127.0.0.1:0")
	g.says("no space for the log")
	for _, what := range []string{"the disk of " + dir + " has ", " bytes free; the reserve is 67108864"} {
		g.says(what)
	}
	if said := get(t, "http://"+g.admin+"/healthz"); said != "full\n" || g.health() != http.StatusServiceUnavailable {
		t.Errorf("/healthz says %q", said)
	}
}

// TestNobodyMayConnect: an empty file of tokens is said at the start.
func TestNobodyMayConnect(t *testing.T) {
	t.Parallel()
	tokens := filepath.Join(t.TempDir(), "tokens")
	must(t, os.WriteFile(tokens, []byte("# none yet\n"), 0o600))
	startGateway(t, filepath.Join(t.TempDir(), "log"), "127.0.0.1:0", "--tokens", tokens).says("names nobody")
}

// TestUnready: each reason of /healthz has its word, and docs/operations.md explains it.
func TestUnready(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/operations.md")
	must(t, err)
	var f serving
	if got := f.unready(); got != "starting" {
		t.Errorf("before the start: %q", got)
	}
	f.draining.Store(true)
	if got := f.unready(); got != "draining" {
		t.Errorf("in a drain: %q", got)
	}
	for _, word := range []string{"starting", "draining", "full", "stalled", "disconnected", "failing"} {
		if !strings.Contains(string(doc), "| `"+word+"` |") {
			t.Errorf("docs/operations.md does not explain %q", word)
		}
	}
}

// trimming trims a log at the first write.
type trimming struct {
	strings.Builder
	log *journal.Segments
}

func (w *trimming) Write(b []byte) (int, error) {
	if w.Len() == 0 {
		if err := w.log.Trim(context.Background(), 15); err != nil {
			return 0, err
		}
	}
	return w.Builder.Write(b)
}

// TestReadBesideTrims: what a running honed trims while its log is exported or checked is not an error. What was trimmed
// before is one, if it is asked for.
func TestReadBesideTrims(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	log, err := journal.OpenSegments(dir, journal.SegmentsOptions{SegmentTime: time.Nanosecond})
	must(t, err)
	defer log.Close()
	next := uint64(0)
	fill := func(to uint64) {
		var e journal.Encoder
		for ; next < to; next++ {
			e.Begin(0)
			must(t, e.Record(&journal.Record{Client: "c", Epoch: 1, Seq: next + 1, Time: 1, Data: make([]byte, 8<<10)}))
			works(t)(log.Append(t.Context(), e.Bytes()))
		}
	}
	fill(20)
	reader, err := journal.OpenReader(dir, nil)
	must(t, err)
	defer reader.Close()
	out := trimming{log: log}
	if err := exportLines(t.Context(), reader, 0, &out); err != nil || strings.Count(out.String(), `"data":`) >= 20 || !strings.Contains(out.String(), `"pos":20,`) {
		t.Errorf("%v; %d records", err, strings.Count(out.String(), `"data":`))
	}
	fill(40)
	late, err := journal.OpenReader(dir, nil)
	must(t, err)
	defer late.Close()
	if err := exportLines(t.Context(), late, 5, io.Discard); err == nil || !strings.Contains(fmt.Sprint(err), "the positions before 15 were trimmed") {
		t.Errorf("from a position that was trimmed before: %v", err)
	}
	c, err := gateway.Check(t.Context(), late, func(journal.Record) error { return log.Trim(t.Context(), 30) })
	if err == nil || !strings.Contains(fmt.Sprint(err), "was trimmed to position 0 only") || c.Records == 0 || c.Lost != 0 || c.LeftOut != 0 {
		t.Errorf("Check: %+v, %v", c, err)
	}
}
