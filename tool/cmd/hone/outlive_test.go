package main

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"testing"
)

// TestResultsEndWithTheirReader runs a command whose result nobody reads.
func TestResultsEndWithTheirReader(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs signals, which Windows does not send to processes")
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	r.Close()
	var said bytes.Buffer
	cmd := exec.Command("hone", "help")
	cmd.Stdout, cmd.Stderr = w, &said
	cmd.Run()
	if end := cmd.ProcessState.String(); end != "signal: broken pipe" || said.Len() > 0 {
		t.Errorf("hone help | true: %s, and standard error has %q; want SIGPIPE and nothing", end, &said)
	}
}
