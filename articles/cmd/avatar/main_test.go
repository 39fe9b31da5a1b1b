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
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

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

// TestServes has avatar serve pictures, count them, and drain when it is interrupted.
func TestServes(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs signals, which Windows does not send to processes")
	}
	cmd := exec.Command("avatar", "--json", "--addr", "127.0.0.1:0", "--admin", "127.0.0.1:0")
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
	if err != nil || json.Unmarshal(line, &ready) != nil || ready.Admin == nil {
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
		status, body := fetch("http://" + ready.Addr + "/avatar/Ada%20Lovelace?size=64")
		if img, err := png.Decode(bytes.NewReader(body)); status != 200 || err != nil || img.Bounds().Dx() != 64 {
			t.Errorf("a picture: %d, %v", status, err)
		}
	}
	if status, _ := fetch("http://" + ready.Addr + "/avatar/a?size=x"); status != 400 {
		t.Errorf("a size of x: %d", status)
	}
	_, metrics := fetch("http://" + *ready.Admin + "/metrics")
	for _, want := range []string{`hone_cache_hits_total{cache="pictures"} 1`, `hone_cache_misses_total{cache="pictures"} 1`} {
		if !bytes.Contains(metrics, []byte(want)) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	cmd.Process.Signal(os.Interrupt)
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, said.String())
	}
	for _, want := range []string{
		"msg=limits name-bytes=256 name-graphemes=64 size=512 cache=64MiB", "msg=serving addr=127.0.0.1:", " tls=false ",
		"msg=draining", "msg=drained requests=3",
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

// TestOutlivesTheReaderOfItsLog closes the reading end of standard error. The service logs there, keeps its connections, and drains with exit code 0.
func TestOutlivesTheReaderOfItsLog(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs signals, which Windows does not send to processes")
	}
	cmd := exec.Command("avatar", "--addr", "127.0.0.1:0", "--admin", "off")
	cmd.Env = append(os.Environ(), quickExit)
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
	stderr.Close()
	client := http.Client{Timeout: patience, Transport: &http.Transport{MaxConnsPerHost: 1}}
	for range 2 {
		resp, err := client.Get("http://" + addr + "/api/Ada")
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
