package main

import (
	"bytes"
	"errors"
	"flag"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/internal/sys"
	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/machine"
)

// TestReadmeCommands runs what the READMEs, in both languages the same, tell a reader
// to type: every line that begins with "$ go run ./tool/cmd/hone", in their order, the
// server first. Ports are free ones, since somebody else may use the README's, which is
// the default of serve. The demo and loads are shorter, and loads may find a busy machine,
// which misses goals or says nothing: what is wrong is a usage error or a failure.
func TestReadmeCommands(t *testing.T) {
	t.Parallel() // it waits more than it works
	const written = "127.0.0.1:7000"
	addr := testrun.FreeAddr(t)
	if help, err := exec.Command("hone", "serve", "--help").CombinedOutput(); err != nil || !regexp.MustCompile(`--addr .*\(default "`+written+`"\)`).Match(help) {
		t.Errorf("the README's server is to listen on %s by default: %v\n%s", written, err, help)
	}
	commands := readmeCommands(t, "README.md")
	if other := readmeCommands(t, "README.zh.md"); !slices.EqualFunc(commands, other, slices.Equal) {
		t.Errorf("README.zh.md says %q, README.md %q", other, commands)
	}
	var server *exec.Cmd
	for _, args := range commands {
		if args[0] == "serve" {
			server = startHone(t, append(args, "--addr", addr, "--admin", "127.0.0.1:0"))
			awaitPort(t, addr)
			continue
		}
		for i, arg := range args {
			if args[i] = strings.ReplaceAll(arg, written, addr); i > 0 && args[i-1] == "--ui" {
				args[i] = "127.0.0.1:0"
			}
		}
		switch args[0] {
		case "demo":
			if args = append(args, "--for", "10ms"); !testrun.All() {
				args = append(args, "--help") // TestRace runs it: here its flags are tried
			}
		case "load":
			args = append(args, "--for", "100ms")
		}
		out, err := exec.Command("hone", args...).CombinedOutput()
		if end := new(exec.ExitError); err != nil && !(errors.As(err, &end) && (end.ExitCode() == exit.Invalid || end.ExitCode() == exit.Missed)) {
			t.Errorf("hone %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	if server == nil {
		t.Fatal("no command of the README starts a server")
	}
	server.Process.Signal(os.Interrupt)
	if err := server.Wait(); err != nil {
		t.Errorf("serve: %v\n%s", err, server.Stderr)
	}
}

// TestReadmeLoadsAreValid runs the README's loads five times (-args -loads 20: twenty) where hone doctor
// finds the machine quiet. A run that is not valid does not count if other programs or other machines of
// the host came while it ran, by the doctor's own limits, or if the machine woke a sleeper beside it as late
// as half of what a load may be.
func TestReadmeLoadsAreValid(t *testing.T) {
	if os.Getenv("HONE_TEST_TIMING") == "" {
		t.Skip("judges measured figures, so it needs a machine to itself: make timing runs it")
	}
	const mostSteal, maxOthers, mostLate = 0.005, 0.05, time.Millisecond / 2
	addr := testrun.FreeAddr(t)
	server := startHone(t, []string{"serve", "--addr", addr, "--admin", "127.0.0.1:0"})
	awaitPort(t, addr)
	for _, args := range readmeCommands(t, "README.md") {
		if args[0] != "load" {
			continue
		}
		valid, quiet := 0, 0
		for range flag.Lookup("loads").Value.(flag.Getter).Get().(int) {
			if out, _ := exec.Command("hone", "doctor").Output(); len(regexp.MustCompile(`(?m)^ok +(others|steal) `).FindAll(out, -1)) < 2 {
				continue
			}
			cmd := exec.Command("hone", args...)
			cmd.Args[2] = addr
			before, wakes := machine.Measure(), sleepBeside(t)
			out, err := cmd.CombinedOutput()
			meanwhile, late := before.Between(machine.Measure(), server.Process.Pid), wakes()
			switch {
			case err == nil:
				valid++
				quiet++
			case late > mostLate:
				t.Logf("a sleeper woke %v late", late)
			case meanwhile.Steal != nil && *meanwhile.Steal > mostSteal || meanwhile.Others != nil && *meanwhile.Others > maxOthers:
			default:
				quiet++
				t.Logf("%q: %v, a sleeper woke %v late\n%s", args, err, late, out)
			}
		}
		if t.Logf("%q: %d of %d valid", args, valid, quiet); valid < quiet {
			t.Errorf("%q: %d of %d are valid on a quiet machine", args, valid, quiet)
		}
	}
}

// sleepBeside sleeps in steps of a millisecond, with the timer that a load has, until it is asked by how
// much the latest one in a hundred woke late.
func sleepBeside(t *testing.T) (late func() time.Duration) {
	timer, err := sys.NewTimer()
	if err != nil {
		t.Fatal(err)
	}
	ended, wakes := make(chan struct{}), []time.Duration{0}
	go func() {
		defer close(ended)
		for {
			began := time.Now()
			if timer.WaitFor(time.Millisecond) != nil {
				return // it is closed
			}
			wakes = append(wakes, time.Since(began)-time.Millisecond)
		}
	}()
	return func() time.Duration {
		timer.Close()
		<-ended
		slices.Sort(wakes)
		return wakes[len(wakes)*99/100]
	}
}

// TestReadmeCode builds the READMEs' first lines of Go, which are the same. They are in no
// package main, so that nothing is linked.
func TestReadmeCode(t *testing.T) {
	t.Parallel()
	block := regexp.MustCompile("(?s)```go\n(.*?)```")
	var code string
	for _, name := range []string{"README.md", "README.zh.md"} {
		text, err := os.ReadFile("../../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		m := block.FindSubmatch(text)
		if m == nil || code != "" && code != string(m[1]) {
			t.Fatalf("%s has no code, or other code than README.md", name)
		}
		code = string(m[1])
	}
	program := filepath.Join(t.TempDir(), "readme.go")
	err := os.WriteFile(program, []byte(`package readme

import (
	"io"
	"log"
	"net/http"

	"github.com/hone-go/hone/http1"
)

var mux = http.NewServeMux()

func readme() {
`+code+"}\n"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", os.DevNull, program)
	if out, err := build.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// startHone starts hone in a process of its own, which ends with the test at
// the latest.
func startHone(t *testing.T, args []string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("hone", args...)
	cmd.Stderr = &bytes.Buffer{}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	return cmd
}

// readmeCommands are the arguments of each command, quotes taken away.
func readmeCommands(t *testing.T, name string) (commands [][]string) {
	text, err := os.ReadFile("../../../" + name)
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^\$ go run \./tool/cmd/hone (.+)$`)
	for _, m := range line.FindAllStringSubmatch(string(text), -1) {
		commands = append(commands, strings.Fields(strings.ReplaceAll(m[1], "'", "")))
	}
	if len(commands) < 4 {
		t.Fatalf("%s: only %d commands found", name, len(commands))
	}
	return commands
}

func awaitPort(t *testing.T, addr string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for until := time.Now().Add(patience); time.Now().Before(until); <-tick.C {
		if nc, err := net.Dial("tcp", addr); err == nil {
			nc.Close()
			return
		}
	}
	t.Fatalf("nobody listens on %s after %v", addr, patience)
}
