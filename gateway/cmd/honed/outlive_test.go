package main

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/hone-go/hone/gateway"
)

// TestServeOutlivesTheReaderOfItsLog closes the reading ends of a gateway's standard output and
// standard error. It stores, and SIGTERM drains it with exit code 0.
func TestServeOutlivesTheReaderOfItsLog(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs signals, which Windows does not send to processes")
	}
	self, err := os.Executable()
	must(t, err)
	cmd := exec.Command(self, "serve", "--json", "--admin", "off", "--data", filepath.Join(t.TempDir(), "log"), "--listen", "127.0.0.1:0")
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	must(t, err)
	late := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	defer late.Stop()
	var ready struct{ Listen []string }
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil || json.Unmarshal(line, &ready) != nil || len(ready.Listen) != 1 {
		cmd.Process.Kill()
		cmd.Wait()
		t.Fatalf("not ready: %q, %v", line, err)
	}
	stdout.Close()
	stderr.Close()
	client := &gateway.Client{Addrs: ready.Listen, ID: "a"}
	if _, err := client.Submit(t.Context(), []byte("record")); err != nil {
		t.Error(err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("honed has ended: %v", err)
	}
	if err := cmd.Wait(); err != nil { // the first line of the drain is logged before it begins
		t.Errorf("honed ended with %v, want exit code 0", err)
	}
	client.Close(t.Context())
}
