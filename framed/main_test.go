package framed_test

import (
	"flag"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hone-go/hone/internal/testrun"
)

func TestMain(m *testing.M) {
	openPoller()
	testrun.SideBySide(24)
	files := openFiles() + profiles()
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) { os.Exit(max(code, leftOpen(files))) }))
}

// openPoller makes the runtime open its poller's descriptors before a test counts them.
func openPoller() {
	if ln, err := net.Listen("tcp", "127.0.0.1:0"); err == nil {
		ln.Close()
	}
}

// profiles returns how many files package testing opens and leaves open, as its flags say.
func profiles() (n int) {
	for _, name := range []string{"test.cpuprofile", "test.trace"} {
		if flag.Lookup(name).Value.String() != "" {
			n++
		}
	}
	return n
}

// leftOpen returns the exit code 1 if more descriptors than before are open after all tests.
func leftOpen(before int) (code int) {
	for deadline := time.Now().Add(patience); openFiles() > before; <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			fmt.Fprintf(os.Stderr, "the tests have left descriptors open: %d were before; now: %q\n", before, descriptors())
			return 1
		}
	}
	return 0
}
