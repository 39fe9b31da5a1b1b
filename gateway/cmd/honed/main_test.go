package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hone-go/hone/gateway"
	"github.com/hone-go/hone/gateway/internal/commandline"
	"github.com/hone-go/hone/internal/testrun"
)

// TestMain runs honed when a test has started this binary as a child process.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "honed" || len(os.Args) > 1 && os.Args[1] == "serve" {
		main()
	}
	if len(os.Args) > 3 && os.Args[1] == "test-reader" {
		err := playReader(os.Args[2], os.Args[3])
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	testrun.SideBySide(4)
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("internal/poll.runtime_pollWait"))
}

// playReader is a reader in a process of its own: it prints each record before it acknowledges it.
func playReader(addr, name string) error {
	r := &gateway.Reader{Addrs: []string{addr}, Name: name, Start: gateway.FromFirst}
	out := bufio.NewWriter(os.Stdout)
	for {
		b, err := r.Next(context.Background())
		if err != nil {
			return err
		}
		for _, m := range b.Messages {
			fmt.Fprintf(out, "%d %s %d\n", m.Number, m.Client, m.Seq)
		}
		if err := out.Flush(); err != nil {
			return err
		}
		if err := r.Ack(b.Position); err != nil {
			return err
		}
	}
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

// victim is a honed in a process of its own, to be killed.
type victim struct {
	dir, addr string
	cmd       *exec.Cmd
	stdin     io.Closer // its EOF ends the child if this process dies
}

// start starts the victim, at its address of before if it had one.
func (v *victim) start(t *testing.T) {
	t.Helper()
	v.cmd = exec.Command(os.Args[0], "serve", "--json", "--until-eof", "--admin", "off", "--data", v.dir, "--listen", cmp.Or(v.addr, "127.0.0.1:0"))
	v.cmd.Stderr = os.Stderr
	stdin, err := v.cmd.StdinPipe()
	must(t, err)
	v.stdin = stdin
	out, err := v.cmd.StdoutPipe()
	must(t, err)
	must(t, v.cmd.Start())
	var ready struct{ Listen []string }
	must(t, json.NewDecoder(out).Decode(&ready))
	v.addr = ready.Listen[0]
}

func (v *victim) kill() {
	v.cmd.Process.Kill()
	v.cmd.Wait()
	v.stdin.Close()
}

// TestReadingVerbs runs the verbs that read a log on one that a killed honed has left.
func TestReadingVerbs(t *testing.T) {
	gw := &victim{dir: filepath.Join(t.TempDir(), "log")}
	gw.start(t)
	for i := range 8 {
		c := &gateway.Client{Addrs: []string{gw.addr}, ID: fmt.Sprint("c", i)}
		for range 100 {
			_, err := c.SubmitAsync(t.Context(), []byte("x"), nil)
			must(t, err)
		}
		must(t, c.Close(t.Context()))
	}
	gw.kill()
	code, out, errs := honed(t, "verify", "--data", gw.dir)
	if code != commandline.OK || !strings.Contains(out, `"records":800,"sessions":8,"left_out":0`) {
		t.Errorf("verify: %d %s%s", code, out, errs)
	}
	code, out, errs = honed(t, "export", "--data", gw.dir)
	if n := strings.Count(out, `"data":`); code != commandline.OK || n != 800 {
		t.Errorf("export: %d, %d records %s", code, n, errs)
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
		{"no path", []string{"--data", dir + "/a", "--websocket", "unix:"}, commandline.Usage, "unix: is not a file"},
		{"other machines", []string{"--data", dir + "/b", "--listen", "0.0.0.0:0"}, commandline.Failed, "0.0.0.0:0; give --tokens FILE or --client-ca FILE"},
		{"key without certificate", []string{"--key", "x"}, commandline.Usage, "--cert and --key must be given together"},
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
		ended <- run(ctx, []string{"--json", "--data", dir, "--listen", "127.0.0.1:0", "--websocket", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, lines(said), &errs)
	}()
	var ready struct {
		Listen, Websocket []string
		Admin             string
	}
	if err := json.Unmarshal(<-said, &ready); err != nil || len(ready.Listen) != 1 || len(ready.Websocket) != 1 {
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

// TestAdminByName: the name given to --admin opens every page of the admin side.
func TestAdminByName(t *testing.T) {
	name := loopbackName(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	said, ended := make(chan []byte, 10), make(chan int, 1)
	var errs bytes.Buffer
	go func() {
		ended <- run(ctx, []string{"--json", "--data", filepath.Join(t.TempDir(), "log"), "--listen", "127.0.0.1:0", "--admin", name + ":0"}, lines(said), &errs)
		close(said)
	}()
	var ready struct{ Admin string }
	if err := json.Unmarshal(<-said, &ready); err != nil {
		t.Fatalf("not ready: %v, %d %s", err, <-ended, &errs)
	}
	_, port, _ := net.SplitHostPort(ready.Admin)
	for _, path := range []string{"/", "/healthz", "/metrics", "/stats", "/debug/pprof/", "/gateway/stats", "/gateway/metrics", readersPath, sessionsPath} {
		if got := get(t, "http://"+net.JoinHostPort(name, port)+path); strings.Contains(got, "not allowed") {
			t.Errorf("%s: %s", path, got)
		}
	}
	cancel()
	if code := <-ended; code != commandline.OK {
		t.Errorf("%d %s", code, &errs)
	}
}

// loopbackName returns a name of this machine, other than localhost, that is a loopback address.
func loopbackName(t *testing.T) string {
	t.Helper()
	host, _ := os.Hostname()
	for _, name := range []string{host, "ip6-localhost", "localhost.localdomain", "localhost4"} {
		if addr, err := net.ResolveTCPAddr("tcp", name+":0"); name != "" && name != "localhost" && err == nil && addr.IP.IsLoopback() {
			return name
		}
	}
	t.Skip("no name of this machine but localhost is a loopback address")
	return ""
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
