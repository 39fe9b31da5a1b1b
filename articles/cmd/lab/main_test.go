package main

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/record"
)

// patience bounds every wait of a test.
const patience = 60 * time.Second

// quickExit spares the second for which a program with the race detector waits at its end.
const quickExit = "atexit_sleep_ms=0"

// TestMain makes the test binary lab, too, wherever it is run as lab.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"lab": main})
}

// TestScripts runs the transcripts. Beside testscript's own commands there are
//
//	code N COMMAND…  run it and expect the exit code N, or one of N,M
//	kept STORE LAB   expect that the newest run in the store is a rough one of this lab
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("GORACE", quickExit)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"code": code, "kept": kept},
	})
}

func code(ts *testscript.TestScript, _ bool, args []string) {
	got := exit.OK
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		end := new(exec.ExitError)
		if !errors.As(err, &end) {
			ts.Fatalf("%v", err)
		}
		got = end.ExitCode()
	}
	if !slices.Contains(strings.Split(args[0], ","), strconv.Itoa(got)) {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

func kept(ts *testscript.TestScript, _ bool, args []string) {
	store, err := record.OpenRead(ts.MkAbs(args[0]))
	ts.Check(err)
	run, err := store.Get("latest")
	ts.Check(err)
	if run.Made != "lab" || run.Name != "rough" || run.Scenario.Name != "lab-"+args[1] || len(run.Samples) != 1 || run.Samples[0].Valid {
		ts.Fatalf("kept as %+v", run)
	}
	if !slices.ContainsFunc(run.Samples[0].Artefacts, func(a record.Artefact) bool { return a.Kind == "cpu" && len(a.Data) > 0 }) {
		ts.Fatalf("no profile is kept: %+v", run.Samples[0].Artefacts)
	}
}

// TestInterrupted sends Ctrl-C in the middle of a lab.
func TestInterrupted(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs signals, which Windows does not send to processes")
	}
	cmd := exec.Command("lab", "ladder")
	cmd.Env = append(os.Environ(), "GORACE="+quickExit)
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	impatience := time.AfterFunc(patience, func() { cmd.Process.Kill() })
	defer impatience.Stop()
	last := ""
	for lines := bufio.NewScanner(stderr); lines.Scan(); last = lines.Text() {
		if strings.Contains(lines.Text(), "round 1 of") {
			cmd.Process.Signal(os.Interrupt)
		}
	}
	cmd.Wait() // its exit code is looked at next
	if code := cmd.ProcessState.ExitCode(); code != exit.Interrupted || !strings.HasPrefix(last, "lab: interrupted") {
		t.Errorf("exit code %d, and it says %q", code, last)
	}
}
