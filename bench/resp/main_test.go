package main

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/hone-go/hone/internal/testrun"
)

// TestMain runs the tests, or redcon for the test that starts it as a separate process.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-redcon" {
		main()
		return
	}
	os.Exit(m.Run())
}

// Every server answers every case.
func TestCompared(t *testing.T) {
	for _, name := range []string{"redis-server", "redis-benchmark"} {
		if _, err := exec.LookPath(name); err != nil {
			testrun.Lacks(t, name+" (make deps installs it)")
		}
	}
	var out bytes.Buffer
	if err := run(&out, 1, 500); err != nil {
		t.Fatal(err)
	}
	if rows := regexp.MustCompile(`(?m)^\| (GET|SET|INCR).*\|$`).FindAllString(out.String(), -1); len(rows) != len(cases) {
		t.Errorf("printed\n%s", out.String())
	}
}
