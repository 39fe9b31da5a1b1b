// Package natstest runs nats-server for tests, in the version of tools/go.mod.
package natstest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hone-go/hone/internal/testrun"
)

// Binary builds nats-server, or finds it in the build cache. A test on a machine that cannot build it is
// skipped, as testrun.Lacks does. The path is kept in the environment, because asking the go command for it costs
// 0.2 s of CPU, more than most tests that need it.
func Binary(t testing.TB) (path string) {
	t.Helper()
	const known = "HONE_TEST_NATS_SERVER"
	if path = os.Getenv(known); path != "" {
		return path
	}
	work, err := exec.Command("go", "env", "GOWORK").Output()
	if err != nil {
		t.Fatalf("go env GOWORK: %v", err)
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for range 100 {
		cmd := exec.Command("go", "tool", "-n", "github.com/nats-io/nats-server/v2")
		cmd.Dir = filepath.Join(filepath.Dir(string(work)), "tools") // which has its version
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err != nil && !bytes.Contains(errs.Bytes(), []byte(syscall.ETXTBSY.Error())) {
			testrun.Lacks(t, fmt.Sprintf("NOT TESTED HERE: this test needs nats-server, which make deps downloads: %v\n%s", err, errs.Bytes()))
		}
		path = string(bytes.TrimSpace(out))
		if err == nil && !errors.Is(exec.Command(path, "--version").Run(), syscall.ETXTBSY) {
			os.Setenv(known, path)
			return path
		}
		<-tick.C
	}
	t.Fatal("other tests write nats-server into the build cache and do not end")
	return ""
}

// Start starts a server with JetStream and without a cluster, with settings that its configuration has besides, waits until
// it is ready, and returns its URL. It ends with the test.
func Start(t testing.TB, settings string) (url string) {
	t.Helper()
	url, _ = Run(t, fmt.Sprintf("jetstream { store_dir: %q, sync_interval: always }\n%s\n", filepath.Join(t.TempDir(), "store"), settings))
	return url
}

// Run is Start with these settings alone, and also returns the id of the process.
func Run(t testing.TB, settings string) (url string, pid int) {
	t.Helper()
	config := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(config, []byte("listen: \"127.0.0.1:-1\"\n"+settings), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(Binary(t), "-c", config)
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var reading sync.WaitGroup
	t.Cleanup(func() {
		cmd.Process.Kill()
		reading.Wait()
		cmd.Wait()
	})
	var all strings.Builder
	for lines := bufio.NewScanner(said); lines.Scan(); {
		fmt.Fprintln(&all, lines.Text())
		if _, addr, found := strings.Cut(lines.Text(), "client connections on "); found {
			url = "nats://" + addr
		}
		if strings.Contains(lines.Text(), "Server is ready") {
			reading.Go(func() { io.Copy(io.Discard, said) })
			return url, cmd.Process.Pid
		}
	}
	t.Fatalf("nats-server did not start:\n%s", all.String())
	return "", 0
}
