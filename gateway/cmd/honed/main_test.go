package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hone-go/hone/gateway/internal/commandline"
	"github.com/hone-go/hone/internal/testrun"
)

// TestMain runs honed when a test has started this binary as a child process.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "honed" || len(os.Args) > 1 && os.Args[1] == "serve" {
		main()
	}
	testrun.SideBySide(4)
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("internal/poll.runtime_pollWait"))
}

// honed runs a command line to its end.
func honed(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var out, errs bytes.Buffer
	code = run(ctx, args, &out, &errs)
	return code, out.String(), errs.String()
}

// must ends the test with an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// reports is must where the test may go on, or where a goroutine of its own
// cannot end it.
func reports(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// works ends the test with the error of a call that returns something, too.
func works(t testing.TB) func(any, error) {
	return func(_ any, err error) {
		t.Helper()
		must(t, err)
	}
}

func TestHelpOfVerbs(t *testing.T) {
	for _, verb := range []string{
		"verify", "export", "backup", "restore", "tail", "clock",
		"readers list", "readers create", "readers create x", "sessions forget",
	} {
		first, _, _ := strings.Cut(verb, " ")
		code, out, errs := honed(t, append(strings.Fields(verb), "--help")...)
		if code != commandline.OK || errs != "" || !strings.HasPrefix(out, "Usage:\n  honed "+first+" ") || !strings.Contains(out, "\n\nFlags of honed "+first) {
			t.Errorf("%s: %d %q\n%s", verb, code, errs, out)
		}
	}
}

func TestRefusals(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer ln.Close()
	dir := t.TempDir()
	config := filepath.Join(dir, "honed.toml")
	open := filepath.Join(dir, "tokens")
	os.WriteFile(config, []byte("data = \"x\"\nlisten = [\"nowhere\"]\n"), 0o600)
	os.WriteFile(open, []byte("a a-token-for-everybody-to-read\n"), 0o644)
	os.Chmod(open, 0o644) // whatever the umask
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"no such verb", []string{"fly"}, commandline.Usage, `there is no verb "fly"`},
		{"no such flag", []string{"--fly"}, commandline.Usage, "flag provided but not defined: --fly;"},
		{"a word", []string{"verify", "it"}, commandline.Usage, `unexpected argument "it"`},
		{"port in use", []string{"--data", dir + "/a", "--listen", ln.Addr().String()}, commandline.Failed, "choose another address with --listen"},
		{"not a number", []string{"--clients", "x"}, commandline.Usage, `for flag --clients`},
		{"no file", []string{"--data", dir + "/a", "--listen", "unix:@honed"}, commandline.Usage, "unix:@honed is not a file, so no permissions would protect it"},
		{"no path", []string{"--data", dir + "/a", "--http", "unix:"}, commandline.Usage, "unix: is not a file"},
		{"other machines", []string{"--data", dir + "/b", "--listen", "0.0.0.0:0"}, commandline.Failed, "0.0.0.0:0; give --tokens FILE or --client-ca FILE"},
		{"key without certificate", []string{"--key", "x"}, commandline.Usage, "--cert and --key must be given together"},
		{"no socket", []string{"--upgrade", "/run/honed/upgrade"}, commandline.Usage, "is not the path of a socket; write it as in unix:/run/honed/upgrade"},
		{"a spread while another one waits", []string{"--upgrade", "unix:/run/honed/upgrade", "--spread-time", "1s"}, commandline.Usage, "--spread-time and --upgrade exclude each other"},
		{"readable tokens", []string{"--tokens", open}, commandline.Failed, "chmod 600"},
		{"no log", []string{"--data", dir + "/c", "--log", "http://x", "--listen", "127.0.0.1:0"}, commandline.Usage, "is not a nats:// or tls:// URL"},
		{"files of no log", []string{"--data", dir, "--listen", "127.0.0.1:0", "--admin", "off"}, commandline.Failed, `has no segments of a log, but other files: "honed.toml", "tokens"; use an empty folder`},
		{"files to verify", []string{"verify", "--data", dir}, commandline.Failed, `but other files: "honed.toml", "tokens"; use an empty folder`},
		{"config", []string{"--config", config}, commandline.Usage, "address to listen on: address nowhere"},
		{"config key", []string{"verify", "--config", config}, commandline.Usage, `there is no setting "listen"`},
		{"no config", []string{"--config", config + ".none"}, commandline.Usage, "no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, errs := honed(t, c.args...)
			if code != c.code || !strings.Contains(errs, c.says) {
				t.Errorf("%d %s; want %d, … %s …", code, errs, c.code, c.says)
			}
			if code == commandline.Usage && (out != "" || strings.Count(errs, "\n") != 1) {
				t.Errorf("wrong usage prints more than one line:\n%s%s", out, errs)
			}
		})
	}
}

// TestImpossibleNumbers gives flags numbers with which honed could not work, and the smallest ones that fit.
func TestImpossibleNumbers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	serve := func(flag, value string) (code int, says string) {
		var errs bytes.Buffer
		code = run(ended, []string{"--data", dir, "--listen", "127.0.0.1:0", "--admin", "off", "--" + flag, value}, io.Discard, &errs)
		return code, errs.String()
	}
	for _, c := range []struct{ flag, wrong, fits, says string }{
		{"frame-size", "13", "1KiB", "1KiB to 1019KiB, not 13;"},
		{"frame-size", "1020KiB", "1019KiB", "1KiB to 1019KiB, not 1044480;"},
		{"queue-bytes", "-5", "1", "1 or more, not -5;"},
		{"queue-bytes", "0", "1", "1 or more, not 0;"},
		{"append-time", "-1s", "1s", "1s or more, not -1s;"},
		{"max-log", "-1", "0", "0 (no limit) or more, not -1;"},
		{"reserve", "-1", "0", "0 (the default) or more, not -1;"},
		{"expiry", "-1s", "1s", "1s or more, not -1s;"},
		{"expiry", "0", "1s", "1s or more, not 0s;"},
		{"clients", "-1", "1", "1 or more, not -1;"},
		{"readers", "-1", "1", "1 or more, not -1;"},
		{"checkpoint-bytes", "-1", "1", "1 or more, not -1;"},
		{"verify-rate", "-1", "0", "0 (off) or more, not -1;"},
		{"drain", "-1s", "0s", "0 (at once) or more, not -1s;"},
		{"accept-rate", "-1", "0", "0 (no limit) or more, not -1;"},
		{"spread-time", "-1s", "0s", "0 (at once) or more, not -1s;"},
	} {
		if code, says := serve(c.flag, c.wrong); code != commandline.Usage || !strings.Contains(says, "--"+c.flag+" is "+c.says) {
			t.Errorf("--%s %s: %d %s", c.flag, c.wrong, code, says)
		}
		if code, says := serve(c.flag, c.fits); code != commandline.OK && code != commandline.Interrupted {
			t.Errorf("--%s %s: %d %s", c.flag, c.fits, code, says)
		}
	}
}

// TestServeDrains runs a gateway, queries its admin side, and ends it through its context.
func TestServeDrains(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	said, dir := make(chan []byte, 10), filepath.Join(t.TempDir(), "log")
	var errs bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"--json", "--data", dir, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, lines(said), &errs)
	}()
	var ready struct {
		Listen, HTTP []string
		Admin        string
	}
	if err := json.Unmarshal(<-said, &ready); err != nil || len(ready.Listen) != 1 || len(ready.HTTP) != 1 {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/healthz":         "ok",
		"/gateway/stats":   `"records":0`,
		"/gateway/metrics": "honed_records_total 0",
		"/metrics":         "hone_connections",
	} {
		if got := get(t, "http://"+ready.Admin+path); !strings.Contains(got, want) {
			t.Errorf("%s: %.200s", path, got)
		}
	}
	code, out, clockErrs := honed(t, "clock", "--data", dir)
	var now clockLine
	if err := json.Unmarshal([]byte(out), &now); code != commandline.OK || err != nil || now.LogTime.IsZero() || now.Off || now.Accepted {
		t.Errorf("%d, %v, %s%s", code, err, out, clockErrs)
	}
	cancel()
	if code := <-ended; code != commandline.OK {
		t.Errorf("%d %s", code, errs.String())
	}
	if left, err := os.ReadDir(filepath.Join(dir)); err != nil || slices.ContainsFunc(left, func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), "clock") }) {
		t.Errorf("%v, %v", left, err)
	}
}

// lines sends every write to the channel.
type lines chan<- []byte

func (l lines) Write(p []byte) (int, error) {
	l <- bytes.Clone(p)
	return len(p), nil
}

func get(t *testing.T, url string) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	answer, err := client.Get(url)
	must(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	must(t, err)
	return string(text)
}
