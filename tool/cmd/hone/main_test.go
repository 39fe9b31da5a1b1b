package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/record"
)

// patience bounds every wait of a test.
const patience = 60 * time.Second

// quickExit spares the second for which a program with the race detector waits
// at its end.
const quickExit = "atexit_sleep_ms=0"

// secretVariable has a secret in the environment of the tests, for TestSecretsStay.
const secretVariable, inheritedSecret = "HONE_TEST_SECRET", "hush99hushinherited"

// withoutDWARF is for programs that the commands under test build: nobody debugs them, and a link
// costs a fifth less.
const withoutDWARF = "-ldflags=-w"

// TestMain makes the test binary hone, too, wherever it is run as hone.
func TestMain(m *testing.M) {
	flag.Int("loads", 5, "how often TestReadmeLoadsAreValid runs each load")
	flag.Bool("update", false, "rewrite what transcripts expect with what was seen")
	if asTest() {
		testrun.SideBySide(8)
		os.Setenv(secretVariable, inheritedSecret)
		if signal.Ignored(syscall.SIGHUP) { // by nohup, which the commands under test would inherit
			signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
		}
	}
	testscript.Main(m, map[string]func(){"hone": main, "storm-clients": playStormClients, "storm-calls": playStormCalls, "net-http": playNetHTTP})
}

// asTest reports whether this program is the tests, and not hone.
func asTest() bool {
	return flag.Lookup("test.parallel") != nil && slices.ContainsFunc(os.Args[1:], func(arg string) bool { return strings.HasPrefix(arg, "-test.") })
}

// TestScripts runs the transcripts. Beside testscript's own commands there are
//
//	code N COMMAND…         run it and expect the exit code N, or one of N,M
//	valid COMMAND…          run it until its result is valid, three times at most
//	interrupted N COMMAND…  the same as code, with Ctrl-C once the server has had requests
//	interruptedat N WHEN COMMAND…
//	                        the same, once a line on standard error matches WHEN
//	hungup N WHEN COMMAND…  the same, with SIGHUP instead of Ctrl-C
//	fields FILE KEY=VALUE…  look into one JSON object; VALUE may begin with < or >
//	serve FLAG…             start hone serve on free ports: $ADDR, $ADMIN, $PID, $LOG
//	activated FLAG…         the same, with a socket passed in as systemd does
//	signal TERM             send it a signal
//	ended N                 wait for its exit code; its log is in server.log
//	upgrades KIND FLAG…     replace a server again and again under clients, count what they did
//	ask WHERE CONTENT…      ask with the library's client, one request after the other
//	leave N CONTENT         send a request on each of N connections, wait for no answer
//	get URL [NAME:VALUE …]  print the status and the body; the rest is header
//	await KEY=VALUE         ask /stats until it is so
//	unready                 wait until /healthz says that the server drains
//	occupy                  listen on a port: $TAKEN
//	port                    find one that is free: $ADDR, $URL
//	stale, alive PATH       make a unix socket that nobody, or somebody, listens on
//	mode OCTAL PATH         expect a unix socket with these permissions
//	cert [NAME]             make cert.pem and key.pem, or NAME.pem and NAME-key.pem
//	nats                    start a NATS server: $NATS
//	history FOLDER          make a store with 18 runs of a benchmark, a day apart
//	renew NAME              put NAME's files in the place of cert.pem and key.pem
func TestScripts(t *testing.T) {
	t.Parallel()
	transcripts(t, "testdata/script")
}

// TestRace runs those that take the whole machine, when the others have ended.
func TestRace(t *testing.T) { transcripts(t, "testdata/race") }

// TestTiming runs those that compare figures of a real service: a machine that does
// other work meanwhile changes such figures, and hone reports that. No count or order
// of events could replace them.
func TestTiming(t *testing.T) {
	if os.Getenv("HONE_TEST_TIMING") == "" {
		t.Skip("compares measured figures, so it needs a machine to itself: make timing runs it")
	}
	transcripts(t, "testdata/timing")
}

func transcripts(t *testing.T, dir string) {
	servers := &servers{}
	testscript.Run(t, testscript.Params{
		Dir: dir,
		Setup: func(env *testscript.Env) error {
			env.Setenv("GORACE", quickExit)
			env.Setenv("GOFLAGS", withoutDWARF)
			env.Setenv("XDG_DATA_HOME", filepath.Join(env.WorkDir, ".data")) // root can make even /no-home
			cache, err := exec.Command("go", "env", "GOCACHE").Output()
			env.Setenv("GOCACHE", strings.TrimSpace(string(cache)))
			return err
		},
		Condition: func(cond string) (bool, error) {
			if cond != "all" {
				return false, fmt.Errorf("unknown condition %q", cond)
			}
			return testrun.All(), nil
		},
		UpdateScripts: flag.Lookup("update").Value.String() == "true",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code":          code,
			"valid":         valid,
			"fields":        fields,
			"interrupted":   interrupted,
			"interruptedat": interruptedAt,
			"hungup":        hungUp,
			"unready":       unready,
			"serve":         servers.serve,
			"activated":     servers.activated,
			"signal":        servers.signal,
			"ended":         servers.ended,
			"upgrades":      upgrades,
			"ask":           ask,
			"leave":         leave,
			"get":           get,
			"await":         await,
			"occupy":        occupy,
			"port":          port(t),
			"stale":         stale,
			"alive":         alive,
			"mode":          mode,
			"cert":          cert,
			"renew":         renew,
			"nats":          startNATS,
			"history":       makeHistory,
		},
	})
}

// makeHistory stores runs whose allocations rise in the tenth.
func makeHistory(ts *testscript.TestScript, _ bool, args []string) {
	store, err := record.Open(ts.MkAbs(args[0]))
	ts.Check(err)
	for day := range 18 {
		ts.Check(store.Add(&record.Run{
			Made: record.Printed, At: time.Date(2026, 1, 1+day, 0, 0, 0, 0, time.UTC), Scenario: record.Scenario{Name: "Encode", Settings: map[string]string{"bench": "Encode"}},
			Samples: []record.Sample{{Order: 1, Valid: true, Metrics: []record.Metric{
				{Name: "allocs/op", Unit: "allocs/op", Better: record.Lower, Value: float64(day / 9)}, {Name: "things/op", Unit: "things/op", Better: record.Lower, Value: 7},
			}}},
		}))
	}
}

// code runs a command and expects an exit code.
func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N COMMAND…")
	}
	if got := exitCode(ts, args[1:]); !slices.Contains(strings.Split(args[0], ","), strconv.Itoa(got)) {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

// valid runs a command again whose result is not valid, as other work may make any.
func valid(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: valid COMMAND…")
	}
	for range 3 {
		switch got := exitCode(ts, args); got {
		case exit.OK:
			return
		case exit.Invalid:
		default:
			ts.Fatalf("exit code %d", got)
		}
	}
	ts.Fatalf("not valid in three runs")
}

func exitCode(ts *testscript.TestScript, command []string) int {
	err := ts.Exec(command[0], command[1:]...)
	if end := new(exec.ExitError); errors.As(err, &end) {
		return end.ExitCode()
	}
	ts.Check(err)
	return 0
}

// interrupted is code for a command that gets Ctrl-C.
func interrupted(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: interrupted N COMMAND…")
	}
	cmd := exec.Command(args[1], args[2:]...)
	cmd.Stderr = ts.Stderr()
	interruptWhen(ts, args[0], cmd, os.Interrupt, func() { awaitRequests(ts) })
}

// interruptedAt is the same for a command that says how far it is.
func interruptedAt(ts *testscript.TestScript, neg bool, args []string) {
	signalledAt(ts, neg, args, os.Interrupt)
}

// hungUp is interruptedAt for a terminal that goes away.
func hungUp(ts *testscript.TestScript, neg bool, args []string) {
	signalledAt(ts, neg, args, syscall.SIGHUP)
}

func signalledAt(ts *testscript.TestScript, neg bool, args []string, sig os.Signal) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: interruptedat|hungup N WHEN COMMAND…")
	}
	when, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	cmd := exec.Command(args[2], args[3:]...)
	said := &saying{to: ts.Stderr(), when: when, seen: make(chan struct{})}
	cmd.Stderr = said
	interruptWhen(ts, args[0], cmd, sig, func() {
		select {
		case <-said.seen:
		case <-time.After(patience):
			ts.Fatalf("it does not say %s", args[1])
		}
	})
}

// interruptWhen runs a command and sends it sig when wait returns.
func interruptWhen(ts *testscript.TestScript, code string, cmd *exec.Cmd, sig os.Signal, wait func()) {
	cmd.Dir, cmd.Stdout = ts.MkAbs("."), ts.Stdout()
	for _, name := range []string{"ADDR", "HOME", "GOCACHE", "TMPDIR"} {
		cmd.Env = append(cmd.Environ(), name+"="+ts.Getenv(name))
	}
	ts.Check(cmd.Start())
	impatience := time.AfterFunc(patience, func() { cmd.Process.Kill() })
	defer impatience.Stop()
	wait()
	ts.Check(cmd.Process.Signal(sig))
	cmd.Wait() // its exit code is looked at next
	if got := strconv.Itoa(cmd.ProcessState.ExitCode()); got != code {
		ts.Fatalf("exit code %s, want %s", got, code)
	}
}

// saying passes on what is written and closes seen when that matches.
type saying struct {
	to   io.Writer
	when *regexp.Regexp
	text []byte
	seen chan struct{}
	once sync.Once
}

func (s *saying) Write(b []byte) (int, error) {
	s.text = append(s.text, b...)
	if s.when.Match(s.text) {
		s.once.Do(func() { close(s.seen) })
	}
	return s.to.Write(b)
}
