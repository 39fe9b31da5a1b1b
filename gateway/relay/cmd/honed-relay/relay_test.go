package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hone-go/hone/gateway/internal/commandline"
	"github.com/hone-go/hone/internal/testrun"
)

// TestStdout: everything comes out, live too, and a relay that starts again goes on where it was.
func TestStdout(t *testing.T) {
	t.Parallel()
	addr, data := newGateway(t), t.TempDir()
	submit(t, addr, "a", 100, numbered)
	out := newReceived()
	r := startRelay(t, out, addr, data, "stdout")
	eventually(t, "100 messages", func() bool { return out.count() == 100 })
	submit(t, addr, "b", 100, numbered)
	eventually(t, "100 more", func() bool { return out.count() == 200 })
	if s := r.stats(); s.Records != 200 || s.Bytes == 0 || s.LastSuccess == 0 || s.Lag != 0 {
		t.Errorf("%+v", s)
	}
	if code := r.stop(); code != commandline.OK {
		t.Errorf("%d %s", code, r.text())
	}
	submit(t, addr, "c", 100, numbered)
	startRelay(t, out, addr, data, "stdout")
	eventually(t, "the rest", func() bool { return out.count() == 300 })
	if out.repeated+len(out.skipped) != 0 {
		t.Errorf("%d messages came twice after an orderly stop; %q", out.repeated, out.skipped)
	}
}

// TestKills kills honed and the relay: each message comes at least once, in order.
func TestKills(t *testing.T) {
	t.Parallel()
	honed, addr, log, data := binary(t), testrun.FreeAddr(t), filepath.Join(t.TempDir(), "log"), t.TempDir()
	gw := startHoned(t, honed, addr, log)
	stop := steady(t, addr, "a")
	out := newReceived()
	for kill := range testrun.Sized(4, 40) {
		before := out.count()
		r := startRelay(t, out.begin(), addr, data, "stdout")
		eventually(t, "progress", func() bool { return out.count() > before })
		if kill%2 == 0 {
			gw.kill()
			gw = startHoned(t, honed, addr, log)
		}
		r.kill()
	}
	n := stop()
	startRelay(t, out.begin(), addr, data, "stdout")
	eventually(t, "the last message", func() bool { return out.count() == n })
	if t.Logf("%d of %d messages came more than once", out.repeated, n); len(out.skipped) > 0 {
		t.Errorf("%q", out.skipped)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open, empty := filepath.Join(dir, "open"), filepath.Join(dir, "empty")
	os.WriteFile(open, []byte("secret"), 0o600)
	os.Chmod(open, 0o644)
	os.WriteFile(empty, []byte("\n"), 0o600)
	config := filepath.Join(dir, "relay.toml")
	os.WriteFile(config, []byte("from = \"a\"\nto = \"carrier-pigeon\"\n"), 0o600)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer ln.Close()
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"no such verb", []string{"fly"}, 2, `there is no verb "fly"`},
		{"no reader", []string{"--to", "stdout"}, 2, "--from READER is missing"},
		{"a long name", []string{"--from", strings.Repeat("a", 65), "--to", "stdout"}, 2, "--from: a name has 1 to 64 characters"},
		{"no destination", []string{"--from", "a"}, 2, "--to DESTINATION is missing"},
		{"password", []string{"--from", "a", "--to", "postgres://u:hidden@h/d"}, 2, "put it into a file"},
		{"another destination", []string{"--config", config}, 2, `there is no destination "carrier-pigeon"`},
		{"a password without a user", []string{"--from", "a", "--to", "kafka://127.0.0.1:1/t", "--password-file", empty}, 2, "needs both --user and --password-file"},
		{"no host", []string{"--from", "a", "--to", "https://"}, 2, "--to https://HOST/PATH needs a host"},
		{"start", []string{"--from", "a", "--to", "stdout", "--start", "soon"}, 2, `is not first, next, a time`},
		{"share", []string{"--from", "a", "--to", "stdout", "--share", "2", "--shares", "2"}, 2, "--share is from 0 to 1, not 2"},
		{"negative size", []string{"--from", "a", "--to", "stdout", "--dead-bytes", "-1"}, 2, "--dead-bytes must not be negative"},
		{"bounds", []string{"--from", "a", "--to", "stdout", "--batch-bytes", "0"}, 2, "must be positive"},
		{"readable secret", []string{"--from", "a", "--to", "http://127.0.0.1:1", "--secret-file", open}, 1, "chmod 600"},
		{"empty secret", []string{"--from", "a", "--to", "http://127.0.0.1:1", "--secret-file", empty}, 2, "is empty"},
		{"no token", []string{"--from", "a", "--to", "stdout", "--token-file", dir + "/none"}, 2, "no such file"},
		{"port in use", []string{"--from", "a", "--to", "stdout", "--data", dir + "/d", "--admin", ln.Addr().String()}, 1, "address already in use"},
		{"no log", []string{"dead", "list", "--data", dir + "/none"}, 1, "there is no folder"},
		{"no log to change", []string{"dead", "drop", "--all", "--data", dir + "/none"}, 1, "no such file"},
		{"nothing to retry", []string{"dead", "retry"}, 2, "give numbers, --client or --all"},
		{"two ways", []string{"dead", "retry", "--all", "1"}, 2, "give numbers, --client or --all"},
		{"no number", []string{"dead", "drop", "x"}, 2, `"x" is not the number`},
		{"no such dead verb", []string{"dead", "dig"}, 2, `no verb "dead dig"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out, errs bytes.Buffer
			code := run(soon(t), c.args, &out, &errs)
			if code != c.code || !strings.Contains(errs.String(), c.says) || strings.Contains(errs.String(), "hidden") {
				t.Errorf("%d %s; want %d, … %s …", code, &errs, c.code, c.says)
			}
			if strings.Count(errs.String(), "\n") != 1 || out.Len() > 0 {
				t.Errorf("it prints more than one line:\n%s%s", &out, &errs)
			}
		})
	}
	for line, says := range map[string]string{
		"--help": "--accept-gaps", "dead --help": "honed-relay dead list [NUMBER", "dead help": "honed-relay dead list [NUMBER", "dead list --help": "--client",
	} {
		var out, errs bytes.Buffer
		if code := run(soon(t), strings.Fields(line), &out, &errs); code != 0 || !strings.Contains(out.String(), says) || errs.Len() > 0 {
			t.Errorf("%s: %d %s%s", line, code, &out, &errs)
		}
	}
}

// TestRefusedReader: what honed refuses ends the relay with the reason.
func TestRefusedReader(t *testing.T) {
	t.Parallel()
	addr := newGateway(t)
	r := startRelay(t, nil, addr, t.TempDir(), "stdout", "--stored")
	if code := r.exit(); code != commandline.Failed || !strings.Contains(r.text(), "reader") {
		t.Errorf("%d %s", code, r.text())
	}
	data := t.TempDir()
	first := startRelay(t, nil, addr, data, "stdout")
	if r := startRelay(t, nil, addr, data, "stdout"); r.exit() != commandline.Failed || !strings.Contains(r.text(), "in use") {
		t.Errorf("two relays share a dead-letter log: %s", r.text())
	}
	second := startRelay(t, nil, addr, t.TempDir(), "stdout")
	if code := first.exit(); code != commandline.Failed || !strings.Contains(first.text(), "a name of its own") {
		t.Errorf("%d %s", code, first.text())
	}
	if code := second.stop(); code != commandline.OK {
		t.Error(code, second.text())
	}
	fmt.Fprint(t.Output(), first.text())
}
