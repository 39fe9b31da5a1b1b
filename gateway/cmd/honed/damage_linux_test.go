package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hone-go/hone/gateway"
	"github.com/hone-go/hone/gateway/internal/commandline"
)

// TestLiveLog reads, verifies and copies the log of a gateway under load, in a folder of which the reader
// may write nothing.
func TestLiveLog(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "log")
	g := startGateway(t, dir, "127.0.0.1:0")
	l := beginGently(t, g.addr)
	l.reach(1000)
	to, restored := filepath.Join(t.TempDir(), "backup"), filepath.Join(t.TempDir(), "restored")
	for range 2 {
		var c gateway.Checked
		code, out, errs := honed(t, "verify", "--data", dir)
		if err := json.Unmarshal([]byte(out), &c); code != commandline.OK || err != nil || c.Records < 1000 {
			t.Errorf("verify: %d, %v, %s%s", code, err, out, errs)
		}
		if code, out, errs := honed(t, "export", "--data", dir); code != commandline.OK || strings.Count(out, `"data":`) < 1000 {
			t.Errorf("export: %d, %.300s%s", code, out, errs)
		}
		if code, out, errs := honed(t, "backup", "--data", dir, "--to", to); code != commandline.OK || !strings.Contains(out, "has a copy of the log, positions 1 to") {
			t.Errorf("backup: %d, %s%s", code, out, errs)
		}
	}
	before := l.acked.Load()
	if code, out, errs := honed(t, "backup", "--data", dir, "--to", to, "--json"); code != commandline.OK || !strings.Contains(out, `"first":1,`) {
		t.Errorf("backup: %d, %s%s", code, out, errs)
	}
	if code, out, errs := honed(t, "restore", "--from", to, "--data", restored); code != commandline.OK {
		t.Errorf("restore: %d, %s%s", code, out, errs)
	}
	var c gateway.Checked
	_, out, _ := honed(t, "verify", "--data", restored)
	if err := json.Unmarshal([]byte(out), &c); err != nil || c.Records < before {
		t.Errorf("the restored log has %d records, %d were acknowledged before the backup", c.Records, before)
	}
	if code, _, errs := honed(t, "restore", "--from", to, "--data", restored); code != commandline.Failed || !strings.Contains(errs, "has a log") {
		t.Errorf("restore over a log: %d %s", code, errs)
	}
	l.end()
	g.kill()
	l.stored(dir)
	again := startGateway(t, restored, "127.0.0.1:0")
	again.kill()
}

// TestDamagedLog flips one bit of the newest envelope of a log of one segment. Reading names it and goes
// on, a start is refused with the flag to use, and with that flag the gateway goes on for good.
func TestDamagedLog(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "log")
	g := startGateway(t, dir, "127.0.0.1:0")
	l := begin(t, g.addr)
	l.reach(500)
	l.end()
	g.kill()
	file := filepath.Join(dir, fmt.Sprintf("%020d.seg", 1))
	b, err := os.ReadFile(file)
	must(t, err)
	at, pos := 40, 0 // the third frame
	for ; pos < 2; pos++ {
		at += 16 + int(binary.BigEndian.Uint32(b[at:]))
	}
	b[at+100] ^= 1
	must(t, os.WriteFile(file, b, 0o600))
	code, out, errs := honed(t, "verify", "--data", dir)
	if code != commandline.Failed || !strings.Contains(errs, "the envelope at position 3 is lost, "+file) || !strings.Contains(out, `"lost":1,"accepted":0`) {
		t.Errorf("verify: %d, %s%s", code, out, errs)
	}
	lost := fmt.Sprintf(`{"lost":3,"last":3,"file":%q,"offset":%d,"clients":["load"],"error":"the envelope does not match its checksum"}`, file, at)
	code, out, errs = honed(t, "export", "--data", dir)
	if code != commandline.Failed || !strings.Contains(out, lost) || !strings.Contains(out, `"pos":4,`) {
		t.Errorf("export: %d, %.300s%s; want %s", code, out, errs, lost)
	}
	code, _, errs = honed(t, gatewayArgs(dir, "127.0.0.1:0")...)
	if code != commandline.Failed || !strings.Contains(errs, "--accept-loss 3-3") {
		t.Errorf("serve: %d, %s", code, errs)
	}
	if now, err := os.ReadFile(file); err != nil || !bytes.HasPrefix(now, bytes.TrimRight(b, "\x00")) {
		t.Error("the envelopes of the refused log were changed")
	}
	g = startProcess(t, exec.Command(os.Args[0], append(gatewayArgs(dir, "127.0.0.1:0"), "--accept-loss", "3")...))
	g.says("the background verification found damage")
	if got := get(t, "http://"+g.admin+"/gateway/metrics"); !strings.Contains(got, "honed_log_damage 1\n") {
		t.Errorf("metrics: %s", got)
	}
	l = begin(t, g.addr)
	l.reach(500)
	l.end()
	g.kill()
	g = startGateway(t, dir, "127.0.0.1:0")
	g.kill()
	code, out, errs = honed(t, "verify", "--data", dir)
	if code != commandline.OK || !strings.Contains(out, `"lost":1,"accepted":1`) {
		t.Errorf("verify at the end: %d, %s%s", code, out, errs)
	}
}
