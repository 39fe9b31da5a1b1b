package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// startNATS starts a real NATS server on a free port: $NATS is its URL.
func startNATS(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: nats")
	}
	dir, err := os.MkdirTemp("", "nats")
	ts.Check(err)
	ts.Defer(func() { os.RemoveAll(dir) })
	binary, conf, ports := filepath.Join(dir, "nats-server"), filepath.Join(dir, "conf"), filepath.Join(dir, "ports")
	build := exec.Command("go", "run", "-exec", "cp", "github.com/nats-io/nats-server/v2", binary) // keeps what it has linked, unlike go build
	build.Dir = filepath.Join("..", "..", "..", "tools")                                           // which has its version
	if out, err := build.CombinedOutput(); err != nil {
		ts.Fatalf("%v\n%s", err, out)
	}
	ts.Check(os.Mkdir(ports, 0o700))
	ts.Check(os.WriteFile(conf, fmt.Appendf(nil, "listen: \"127.0.0.1:-1\"\nports_file_dir: %q\n", ports), 0o600))
	server := exec.Command(binary, "-c", conf)
	ts.Check(server.Start())
	ts.Defer(func() {
		_ = server.Process.Kill() // it may have ended
		_ = server.Wait()
	})
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-again.C {
		files, _ := filepath.Glob(filepath.Join(ports, "*.ports"))
		for _, file := range files {
			text, _ := os.ReadFile(file)
			_, rest, _ := strings.Cut(string(text), "nats://")
			if address, _, whole := strings.Cut(rest, `"`); whole {
				ts.Setenv("NATS", "nats://"+address)
				return
			}
		}
	}
	ts.Fatalf("the NATS server does not start")
}
