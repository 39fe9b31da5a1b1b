package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"image/png"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/tool/serving"
)

// TestAvatarServes has hone avatar serve pictures on the default engine and on net/http,
// count them, log them, open its log again, and leave when it is told to.
func TestAvatarServes(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs signals, which Windows does not send to processes")
	}
	t.Run("engine", func(t *testing.T) { avatarServes(t, engine.Engine{}.Name()) })
	t.Run("net/http", func(t *testing.T) { avatarServes(t, "net/http", "--net-http") })
}

func avatarServes(t *testing.T, engine string, args ...string) {
	access := filepath.Join(t.TempDir(), "access.log")
	cmd := exec.Command("hone", append([]string{"avatar", "--json", "--addr", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log", access}, args...)...)
	cmd.Env = append(os.Environ(), "GORACE="+quickExit)
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
	if !strings.Contains(said.String(), "requests=4 logged=4 skipped=0 dropped=0 failed=0") {
		t.Errorf("its last words: %s", said.String())
	}
}
