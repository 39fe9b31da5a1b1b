package main

import (
	"encoding/json"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/gateway/internal/commandline"
	"github.com/hone-go/hone/gateway/journal"
)

// TestClockAccept starts honed on logs whose time is ten years ahead and in 1971: honed clock accept makes
// the one right, and --trust-clock the other, and a second honed clock accept says that nothing changes.
func TestClockAccept(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		log   time.Time
		off   bool
		flags []string
	}{
		"ten years ahead": {time.Now().AddDate(10, 0, 0), true, nil},
		"1971":            {time.Unix(365*24*3600, 0), false, []string{"--trust-clock"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "log")
			log, err := journal.OpenSegments(dir, journal.SegmentsOptions{})
			must(t, err)
			var e journal.Encoder
			e.Begin(0)
			must(t, e.Clock(journal.Clock{Time: c.log.UnixMilli(), Highest: 1}))
			must(t, e.Record(&journal.Record{Client: "a", Epoch: 1, Seq: 1, Time: c.log.UnixMilli(), Data: []byte("x")}))
			works(t)(log.Append(t.Context(), e.Bytes()))
			must(t, log.Close())
			clock := func(wantCode int, verb ...string) (now clockLine) {
				t.Helper()
				code, out, errs := honed(t, append(append([]string{"clock"}, verb...), "--data", dir)...)
				if err := json.Unmarshal([]byte(out), &now); code != wantCode || err != nil {
					t.Fatalf("%v: %d, %v, %s%s", verb, code, err, out, errs)
				}
				if wantCode != commandline.OK && (!strings.Contains(errs, "log time follows the wall clock already") || now.Accepted) {
					t.Errorf("%s%s", out, errs)
				}
				return now
			}
			for range 2 { // the second start has read it from the log
				g := startGateway(t, dir, "127.0.0.1:0", c.flags...)
				if now := clock(commandline.OK); now.Off != c.off || c.off != (math.Abs(now.Ahead) > 2) {
					t.Fatalf("%+v", now)
				}
				if c.off {
					if now := clock(commandline.OK, "accept"); !now.Accepted || now.Off || math.Abs(now.Ahead) > 2 {
						t.Errorf("%+v", now)
					}
				}
				clock(commandline.Failed, "accept")
				g.kill()
				c.off = false
			}
		})
	}
}
