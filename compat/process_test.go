//go:build linux

package compat

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/tool/child"
)

// program builds the server and returns its path.
func program(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "server")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./server").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// process is a server of its own process.
type process struct {
	*child.Child
	served
}

// start starts a server that ends with the test.
func start(t *testing.T, path string, args ...string) *process {
	t.Helper()
	addr := make(chan string, 1)
	c, err := child.Start(exec.CommandContext(t.Context(), path, args...), child.Options{Said: func(line []byte) {
		var a string
		if n, _ := fmt.Sscanf(string(line), "listening on %s", &a); n == 1 {
			addr <- a
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Stop()
		if t.Failed() {
			t.Logf("the server said: %s", c.Said())
		}
	})
	select {
	case a := <-addr:
		return &process{c, served{addr: a}}
	case <-c.Ended():
	case <-time.After(patience):
	}
	t.Fatalf("the server says no address: %s", c.Said())
	return nil
}

func (p *process) resident(t *testing.T) int64 {
	use, err := child.UsedBy(p.PID)
	if err != nil {
		t.Errorf("the server's memory: %v", err)
	}
	return use.Resident
}

// wait waits for d or for ctx to end, whichever is first.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// peak watches the server's memory; what it returns ends that and returns the most.
func (p *process) peak(t *testing.T) func() int64 {
	ctx, cancel := context.WithCancel(t.Context())
	var most atomic.Int64
	var watching sync.WaitGroup
	watching.Go(func() {
		for ctx.Err() == nil {
			most.Store(max(most.Load(), p.resident(t)))
			wait(ctx, 10*time.Millisecond)
		}
	})
	return func() int64 {
		cancel()
		watching.Wait()
		return most.Load()
	}
}
