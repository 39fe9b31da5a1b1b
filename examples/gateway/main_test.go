package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hone-go/hone/engine"
)

// TestMain runs the tests, or the example itself for tests that need it as a separate
// process.
func TestMain(m *testing.M) {
	if os.Getenv("HONE_TEST_ROLE") == "example" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// program is the example as a separate process.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), "HONE_TEST_ROLE=example", "GORACE="+os.Getenv("GORACE")+" atexit_sleep_ms=0")
	return cmd
}

// The demo ends by itself, in time, and loses no message.
func TestDemo(t *testing.T) {
	engines := engine.All()
	if os.Getenv("HONE_TEST_ALL") == "" {
		engines = engines[len(engines)-2:] // each keeps the processors busy for two seconds
	}
	for _, e := range engines {
		t.Run(e.Name(), func(t *testing.T) {
			t.Parallel()
			cmd := program(t, "-demo", "-engine", e.Name())
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			began := time.Now()
			out, err := cmd.Output()
			if took := time.Since(began); err != nil || stderr.Len() > 0 || took < talkTime || took > demoLimit+time.Second {
				t.Fatalf("after %v: %v, %s%s", took, err, &stderr, out)
			}
			for _, want := range []string{
				`eve guesses the secret: wire: unauthorised`,
				`ann writes to zoe, who is not logged in: wire: result 100`,
				`bob logs in a second time; his first connection: .* closed`,
				`ann +[0-9]+ +[0-9]+ +"from (bob|cyd) this is message [0-9]+"`,
				`bob +[0-9]+ +[0-9]+ +"from (ann|cyd) this is message [0-9]+"`,
				`cyd +[0-9]+ +[0-9]+ +"from (ann|bob) this is message [0-9]+"`,
				`engine +` + e.Name(),
				`connections +5 \(0 open\)`,
				`ended .*1 closed_here`,
				`requests +[0-9]+ \(2 answered with an error\)`,
			} {
				if !regexp.MustCompile(`(?m)^` + want).Match(out) {
					t.Errorf("no line like %s", want)
				}
			}
			sent := 0
			for _, m := range regexp.MustCompile(`(?m)^(?:ann|bob|cyd) +([0-9]+) +[0-9]`).FindAllSubmatch(out, -1) {
				n, _ := strconv.Atoi(string(m[1]))
				sent += n
			}
			if want := fmt.Sprintf("pushes +%d\n", sent); sent == 0 || !regexp.MustCompile(want).Match(out) {
				t.Errorf("the devices sent %d messages, the server counted others", sent)
			}
			if t.Failed() {
				t.Logf("%s", out)
			}
		})
	}
}

// The demo can be interrupted.
func TestDemoInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	stdout, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, options{secret: "sesame", demo: true}, w, io.Discard)
		w.Close()
		ended <- err
	}()
	lines := bufio.NewScanner(stdout)
	for lines.Scan() && !strings.Contains(lines.Text(), "talk to each other") {
	}
	cancel()
	io.Copy(io.Discard, stdout)
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v, want context.Canceled", err)
	}
}

func TestAddressInUse(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	err = run(t.Context(), options{addr: ln.Addr().String()}, io.Discard, io.Discard)
	if said := fmt.Sprint(err); err == nil || !strings.Contains(said, "-addr") {
		t.Errorf("on an address in use: %s, want an error that names -addr", said)
	}
}

func TestExitStatus(t *testing.T) {
	for _, test := range []struct {
		args string
		code int
		says string
	}{
		{"-h", 0, "-demo"},
		{"-engine steam", 2, "buffered, events, events-inline"},
		{"-engine", 2, "-engine"},
		{"-port 1", 2, "-port"},
		{"demo", 2, "-demo"},
		{"-addr nowhere", 1, "choose another address with -addr"},
	} {
		cmd := program(t, strings.Fields(test.args)...)
		said, err := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != test.code || !bytes.Contains(said, []byte(test.says)) {
			t.Errorf("%s ends with %v, want exit status %d and %q:\n%s", test.args, err, test.code, test.says, said)
		}
	}
}

func TestSIGTERM(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no SIGTERM to send")
	}
	cmd := program(t, "-addr", "127.0.0.1:0", "-secret", "please")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	first, err := bufio.NewReader(stdout).ReadString('\n')
	r := &running{addr: regexp.MustCompile(`[0-9.]+:[0-9]+`).FindString(first)}
	if r.addr == "" {
		t.Fatalf("the first line is %q, %v", first, err)
	}
	ann := r.dial(t)
	ann.connect("ann please", "welcome ann", nil)
	ann.submit("to ann hello", nil)
	ann.hears("1 from ann hello")
	cmd.Process.Signal(syscall.SIGTERM)
	<-ann.c.Done()
	if err := cmd.Wait(); err != nil {
		t.Errorf("ended with %v", err)
	}
	for _, want := range []string{"requests     2", "pushes       1", "drained: 1 clean, 0 forced"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("no %q in\n%s", want, &stderr)
		}
	}
}
