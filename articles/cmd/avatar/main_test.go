package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"image/png"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/serving"
)

// patience bounds every wait of a test.
const patience = 60 * time.Second

// quickExit spares the second for which a program with the race detector waits at its end.
const quickExit = "GORACE=atexit_sleep_ms=0"

// TestMain makes the test binary avatar, too, wherever it is run as avatar.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"avatar": main})
}

// TestScripts runs the transcripts. Beside testscript's own commands there is
//
//	code N COMMAND…  run it and expect the exit code N
//
// and $TAKEN is an address that another program listens on.
func TestScripts(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() })
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("TAKEN", taken.Addr().String())
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code": func(ts *testscript.TestScript, _ bool, args []string) {
				end := new(exec.ExitError)
				if err := ts.Exec(args[1], args[2:]...); !errors.As(err, &end) || strconv.Itoa(end.ExitCode()) != args[0] {
					ts.Fatalf("%v, want exit code %s", err, args[0])
				}
			},
		},
	})
}

// TestServes has avatar serve pictures on the default engine and on net/http,
// count them, log them, open its log again, and drain when it is interrupted.
func TestServes(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs signals, which Windows does not send to processes")
	}
	t.Run("engine", func(t *testing.T) { avatarServes(t, engine.Engine{}.Name()) })
	t.Run("net/http", func(t *testing.T) { avatarServes(t, "net/http", "--net-http") })
}

func avatarServes(t *testing.T, engine string, args ...string) {
	access := filepath.Join(t.TempDir(), "access.log")
	cmd := exec.Command("avatar", append([]string{"--json", "--addr", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log", access}, args...)...)
	cmd.Env = append(os.Environ(), quickExit)
	var said bytes.Buffer
	cmd.Stderr = &said
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	impatience := time.AfterFunc(patience, func() { cmd.Process.Kill() })
	defer impatience.Stop()
	var ready serving.Ready
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil || json.Unmarshal(line, &ready) != nil || ready.Admin == nil || ready.Engine != engine {
		cmd.Process.Kill()
		cmd.Wait()
		t.Fatalf("not ready: %q, %v: %s", line, err, said.String())
	}
	fetch := func(url string) (int, []byte) {
		client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
		resp, err := client.Get(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			return 0, nil
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Errorf("%s: %v", url, err)
		}
		return resp.StatusCode, body
	}
	for range 2 {
		status, body := fetch("http://" + ready.Addr + "/v1/Ada%20Lovelace.png?size=64")
		if img, err := png.Decode(bytes.NewReader(body)); status != 200 || err != nil || img.Bounds().Dx() != 64 {
			t.Errorf("a picture: %d, %v", status, err)
		}
	}
	if status, _ := fetch("http://" + ready.Addr + "/v1/a.png?size=9"); status != 400 {
		t.Errorf("a size of 9: %d", status)
	}
	_, metrics := fetch("http://" + *ready.Admin + "/metrics")
	for _, want := range []string{`cache="pictures"`, `cache="masks"`, `engine="` + engine + `"`} {
		if !bytes.Contains(metrics, []byte(want)) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	if err := os.Rename(access, access+".1"); err != nil {
		t.Fatal(err)
	}
	cmd.Process.Signal(syscall.SIGHUP)
	for until := time.Now().Add(patience); ; { // until it has a file of that name again
		if _, err := os.Stat(access); err == nil {
			break
		}
		if time.Now().After(until) {
			t.Fatal("the log is not opened again")
		}
		runtime.Gosched()
	}
	if status, _ := fetch("http://" + ready.Addr + "/v1/after.png"); status != 200 {
		t.Errorf("after a hangup: %d", status)
	}
	cmd.Process.Signal(os.Interrupt)
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, said.String())
	}
	var all, after string
	for file, into := range map[string]*string{access + ".1": &all, access: &after} {
		lines, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		*into = string(lines)
	}
	all += after
	if strings.Count(all, "\n") != 4 || !strings.Contains(all, `"cache":"hit"`) || !strings.Contains(all, `"status":400`) || !strings.Contains(after, "/v1/after.png") {
		t.Errorf("the access log: %s, and after it was opened again: %s", all, after)
	}
	for _, want := range []string{
		"msg=limits name-bytes=256 name-graphemes=64 size=512 cache=64MiB", "msg=serving addr=127.0.0.1:", " tls=false ",
		"msg=draining", "requests=4 logged=4 skipped=0 dropped=0 failed=0",
	} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("standard error lacks %q: %s", want, said.String())
		}
	}
}

// TestStartNeedsDescriptors runs avatar with fewer descriptors than a first connection needs.
func TestStartNeedsDescriptors(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("sets limits as Linux has them")
	}
	cmd := exec.Command("sh", "-c", `ulimit -n 11; exec avatar --json --addr 127.0.0.1:0 --admin 127.0.0.1:0`)
	cmd.Env = append(os.Environ(), quickExit)
	var said bytes.Buffer
	cmd.Stderr = &said
	impatience := time.AfterFunc(patience, func() { cmd.Process.Kill() })
	defer impatience.Stop()
	ready, err := cmd.Output()
	if end := new(exec.ExitError); !errors.As(err, &end) || end.ExitCode() != exit.Failed || len(ready) > 0 {
		t.Errorf("it ends with %v, and standard output has %q", err, ready)
	}
	if !regexp.MustCompile(`^avatar: .*the limit is 11, and a server needs [0-9]+ more; raise it \(ulimit -n, LimitNOFILE\)\n$`).Match(said.Bytes()) {
		t.Errorf("standard error has %q", &said)
	}
}

// TestOutlivesTheReaderOfItsLog closes the reading ends of standard output and standard
// error. The service logs there, keeps its connections, and drains with exit code 0.
func TestOutlivesTheReaderOfItsLog(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs signals, which Windows does not send to processes")
	}
	cmd := exec.Command("avatar", "--log", "-", "--addr", "127.0.0.1:0", "--admin", "off") // the requests go to standard output
	cmd.Env = append(os.Environ(), quickExit)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	impatience := time.AfterFunc(patience, func() { cmd.Process.Kill() })
	defer impatience.Stop()
	addr := ""
	serves := regexp.MustCompile(`msg=serving addr=(\S+)`)
	for log := bufio.NewScanner(stderr); addr == "" && log.Scan(); {
		if m := serves.FindStringSubmatch(log.Text()); m != nil {
			addr = m[1]
		}
	}
	stdout.Close()
	stderr.Close()
	client := http.Client{Timeout: patience, Transport: &http.Transport{MaxConnsPerHost: 1}}
	for range 2 {
		resp, err := client.Get("http://" + addr + "/v1/Ada.svg")
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("no picture: %v", err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Error(err)
		}
		resp.Body.Close()
	}
	client.CloseIdleConnections()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatalf("the service has ended: %v", err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the service ended with %v, want exit code 0", err)
	}
}
