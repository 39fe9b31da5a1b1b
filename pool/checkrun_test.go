//go:build !poolcheck

package pool

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"github.com/hone-go/hone/internal/testrun"
)

// TestCheckBuild runs all tests again with -tags poolcheck, which adds some.
func TestCheckBuild(t *testing.T) {
	if testrun.Race {
		t.Skip("runs without the race detector; with it: go test -race -tags poolcheck ./pool")
	}
	goCommand, err := exec.LookPath("go")
	if err != nil {
		t.Skip("needs the go command to build with a tag")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	test := exec.CommandContext(ctx, goCommand, "test", "-tags", "poolcheck", "-timeout", "1m", ".")
	test.WaitDelay = 10 * time.Second
	if out, err := test.CombinedOutput(); err != nil {
		t.Errorf("%v: %v\n%s", test, err, out)
	}
}
