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
	"testing"
	"time"

	"github.com/hone-go/hone/tool/serving"
)

// TestAvatarServes has hone avatar serve pictures, count them, log them, and
// leave when it is told to.
func TestAvatarServes(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs signals, which Windows does not send to processes")
	}
	access := filepath.Join(t.TempDir(), "access.log")
	cmd := exec.Command("hone", "avatar", "--json", "--addr", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log", access)
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
		status, body := fetch("http://" + ready.Addr + "/v1/Ada%20Lovelace.png?size=64")
		if img, err := png.Decode(bytes.NewReader(body)); status != 200 || err != nil || img.Bounds().Dx() != 64 {
			t.Errorf("a picture: %d, %v", status, err)
		}
	}
	if status, _ := fetch("http://" + ready.Addr + "/v1/a.png?size=9"); status != 400 {
		t.Errorf("a size of 9: %d", status)
	}
	_, metrics := fetch("http://" + *ready.Admin + "/metrics")
	for _, want := range []string{`cache="pictures"`, `cache="masks"`, `engine="net/http"`} {
		if !bytes.Contains(metrics, []byte(want)) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	cmd.Process.Signal(os.Interrupt)
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, said.String())
	}
	lines, err := os.ReadFile(access)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(lines); strings.Count(got, "\n") != 3 || !strings.Contains(got, `"cache":"hit"`) || !strings.Contains(got, `"status":400`) {
		t.Errorf("the access log: %s", got)
	}
	if !strings.Contains(said.String(), "requests=3 logged=3 skipped=0 dropped=0 failed=0") {
		t.Errorf("its last words: %s", said.String())
	}
}
