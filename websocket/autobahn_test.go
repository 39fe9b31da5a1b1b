package websocket

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/http1"
	"github.com/hone-go/hone/internal/tlsfront"
)

// updateAutobahn has TestAutobahn write its page.
var updateAutobahn = flag.Bool("update", false, "write autobahn.md from a run of all cases")

// What the Autobahn test suite is installed from. It is a program for Python 2.7; wsaccel has its
// inner loops in C.
const (
	autobahnRelease = "autobahntestsuite==0.8.2"
	autobahnTLS     = "pyOpenSSL==21.0.0"
	autobahnInC     = "wsaccel==0.6.2"
)

// autobahnLargest is the suite's longest message.
const autobahnLargest = 16 << 20

// TestAutobahn has the Autobahn test suite test package websocket: its fuzzing client tests servers, its
// fuzzing server tests Dial. HONE_AUTOBAHN names the cases, as in 1.*,6.4.*; an agent takes some four minutes
// for all of them. make autobahn runs everything and writes autobahn.md.
func TestAutobahn(t *testing.T) {
	cases := os.Getenv("HONE_AUTOBAHN")
	if cases == "" {
		t.Skip("needs Python 2.7 with pip, and half an hour; make autobahn runs it")
	}
	python := installAutobahn(t)
	version := strings.Join(strings.Fields(python(t.Context(), "--autobahnversion").said(t)), " ")
	var rows []string
	for _, agent := range []struct {
		name string
		test func(t *testing.T, python wstest, cases []string) autobahnOutcomes
	}{
		{"server on http1, Events", func(t *testing.T, python wstest, cases []string) autobahnOutcomes {
			return testAutobahnServer(t, python, cases, serveOnHTTP1, false)
		}},
		{"server on http1, Events, TLS", func(t *testing.T, python wstest, cases []string) autobahnOutcomes {
			return testAutobahnServer(t, python, cases, serveOnHTTP1, true)
		}},
		{"server on net/http", func(t *testing.T, python wstest, cases []string) autobahnOutcomes {
			return testAutobahnServer(t, python, cases, serveOnNetHTTP, false)
		}},
		{"client", testAutobahnClient},
	} {
		t.Run(agent.name, func(t *testing.T) {
			row, err := agent.test(t, python, strings.Split(cases, ",")).row()
			if err != nil {
				t.Error(err)
			}
			t.Log(row)
			rows = append(rows, "| "+agent.name+" | "+row+" |\n")
		})
	}
	if *updateAutobahn && cases == "*" && !t.Failed() {
		commit, err := exec.CommandContext(t.Context(), "git", "describe", "--always", "--dirty", "--abbrev=12").Output()
		if err != nil {
			t.Fatal(err)
		}
		page := autobahnPage + strings.Join(rows, "") + fmt.Sprintf("\nCommit %s, %s, %s, Python 2.7.\n", bytes.TrimSpace(commit), time.Now().UTC().Format(time.DateOnly), version)
		if err := os.WriteFile("autobahn.md", []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

const autobahnPage = `# The Autobahn test suite against websocket

Results of package websocket in the [Autobahn test suite](https://github.com/crossbario/autobahn-testsuite), all of whose
cases are run. ` + "`make autobahn`" + ` writes this page. Informational: the case has no right answer. A case that fails, that passes
but ignores a recommendation, or whose connection does not close as expected fails the run.

| agent | cases | OK | informational |
|---|---|---|---|
`

// autobahnOutcomes say how cases went, by their number, as in "6.4.1".
type autobahnOutcomes map[string]struct {
	Behavior string `json:"behavior"`      // OK, INFORMATIONAL, NON-STRICT, FAILED …
	Close    string `json:"behaviorClose"` // the same of the closing handshake
}

// row returns the cells of an agent, and an error that names the cases which have not passed.
func (of autobahnOutcomes) row() (string, error) {
	fine, informational := 0, 0
	var bad []string
	for id, o := range of {
		switch {
		case o.Close != "OK" && o.Close != "INFORMATIONAL":
			bad = append(bad, id+" closes "+strings.ToLower(o.Close))
		case o.Behavior == "OK":
			fine++
		case o.Behavior == "INFORMATIONAL":
			informational++
		default:
			bad = append(bad, id+" "+strings.ToLower(o.Behavior))
		}
	}
	slices.Sort(bad)
	if fine == 0 {
		bad = append(bad, "no case is OK")
	}
	row := fmt.Sprintf("%d | %d | %d", len(of), fine, informational)
	if bad != nil {
		return row, errors.New(strings.Join(bad, ", "))
	}
	return row, nil
}

// TestAutobahnRow has one outcome of each kind.
func TestAutobahnRow(t *testing.T) {
	for text, want := range map[string]string{
		`{"1.1": {"behavior": "OK", "behaviorClose": "OK"}, "7.1": {"behavior": "INFORMATIONAL", "behaviorClose": "INFORMATIONAL"}}`: "2 | 1 | 1: <nil>",
		`{"1.1": {"behavior": "OK", "behaviorClose": "UNCLEAN"}, "1.2": {"behavior": "OK", "behaviorClose": "OK"}}`:                  "2 | 1 | 0: 1.1 closes unclean",
		`{"1.1": {"behavior": "NON-STRICT", "behaviorClose": "OK"}}`:                                                                 "1 | 0 | 0: 1.1 non-strict, no case is OK",
		`{}`: "0 | 0 | 0: no case is OK",
	} {
		var of autobahnOutcomes
		if err := json.Unmarshal([]byte(text), &of); err != nil {
			t.Fatal(err)
		}
		row, err := of.row()
		if got := fmt.Sprintf("%s: %v", row, err); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// wstest makes a command of the suite's program.
type wstest func(ctx context.Context, args ...string) autobahnCommand

type autobahnCommand struct{ *exec.Cmd }

// said runs the command and returns what it prints.
func (c autobahnCommand) said(t *testing.T) string {
	t.Helper()
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", c.Args, err, out[max(0, len(out)-2000):])
	}
	return string(out)
}

// installAutobahn installs the suite into a temporary folder. HONE_PYTHON2 names a Python 2.7 that has pip.
func installAutobahn(t *testing.T) wstest {
	t.Helper()
	python, folder := os.Getenv("HONE_PYTHON2"), t.TempDir()
	if python == "" {
		python = "python2.7"
	}
	run := func(ctx context.Context, args ...string) autobahnCommand {
		cmd := exec.CommandContext(ctx, python, append([]string{"-W", "ignore", "-m"}, args...)...)
		cmd.Env = append(os.Environ(), "PYTHONPATH="+folder, "PYTHONDONTWRITEBYTECODE=1")
		return autobahnCommand{cmd}
	}
	for _, name := range []string{autobahnRelease, autobahnTLS, autobahnInC} {
		run(t.Context(), "pip", "install", "--quiet", "--disable-pip-version-check", "--target", folder, name).said(t)
	}
	// zope.interface has a zope folder that is a package by a .pth file only, which Python does not
	// read in a folder of PYTHONPATH.
	if err := os.WriteFile(filepath.Join(folder, "zope", "__init__.py"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context, args ...string) autobahnCommand {
		return run(ctx, append([]string{"autobahntestsuite.wstest"}, args...)...)
	}
}

// fuzz makes a command of the suite in a mode, and what reads its outcomes.
func (python wstest) fuzz(t *testing.T, mode string, spec map[string]any, cases []string) (autobahnCommand, func() autobahnOutcomes) {
	t.Helper()
	folder := t.TempDir()
	spec["outdir"], spec["cases"], spec["exclude-cases"], spec["exclude-agent-cases"] = folder, cases, []string{}, map[string]any{}
	text, err := json.Marshal(spec)
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "spec.json"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := python(t.Context(), "--mode", mode, "--spec", filepath.Join(folder, "spec.json"), "--webport", "0")
	return cmd, func() autobahnOutcomes {
		var index map[string]autobahnOutcomes
		text, err := os.ReadFile(filepath.Join(folder, "index.json"))
		if err == nil {
			err = json.Unmarshal(text, &index)
		}
		if err != nil || len(index) != 1 {
			t.Fatalf("the suite has results of %d agents, %v", len(index), err)
		}
		for _, of := range index {
			return of
		}
		return nil
	}
}

// testAutobahnServer runs the fuzzing client against a server.
func testAutobahnServer(t *testing.T, python wstest, cases []string, serve func(*testing.T, net.Listener, *Upgrader), secure bool) autobahnOutcomes {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := "ws://" + ln.Addr().String()
	if secure {
		ln, address = engine.NewTLSListener(ln, &tls.Config{Certificates: []tls.Certificate{tlsfront.Certificate()}}), "wss://"+ln.Addr().String()
	}
	serve(t, ln, &Upgrader{
		Message:     func(_ Call, dst, msg []byte) ([]byte, error) { return append(dst, msg...), nil },
		MessageSize: autobahnLargest, Compression: &Compression{MinSize: 1}, Limits: autobahnLimits(),
	})
	cmd, outcomes := python.fuzz(t, "fuzzingclient", map[string]any{"servers": []map[string]string{{"agent": "agent", "url": address}}}, cases)
	cmd.said(t)
	return outcomes()
}

// autobahnLimits let in what the suite sends.
func autobahnLimits() engine.Limits {
	return engine.Limits{FrameSize: autobahnLargest, HardCap: 4 * autobahnLargest}
}

func serveOnHTTP1(t *testing.T, ln net.Listener, u *Upgrader) {
	s := &http1.Server{Handler: u, Limits: autobahnLimits()}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ln) }()
	t.Cleanup(func() {
		err := s.Shutdown(context.Background())
		if served := <-ended; err != nil || !errors.Is(served, http.ErrServerClosed) {
			t.Errorf("%v, %v", served, err)
		}
	})
}

func serveOnNetHTTP(t *testing.T, ln net.Listener, u *Upgrader) {
	s := &http.Server{Handler: u}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ln) }()
	t.Cleanup(func() {
		s.Close()
		err := u.Shutdown(context.Background())
		if served := <-ended; err != nil || !errors.Is(served, http.ErrServerClosed) {
			t.Errorf("%v, %v", served, err)
		}
	})
}

// testAutobahnClient runs the fuzzing server, and connects to it as it wants: to ask how many cases there
// are, for each of them, and to have the results written.
func testAutobahnClient(t *testing.T, python wstest, cases []string) autobahnOutcomes {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	base := "ws://" + ln.Addr().String()
	ln.Close() // the suite cannot choose a port
	cmd, outcomes := python.fuzz(t, "fuzzingserver", map[string]any{"url": base}, cases)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	var count []byte
	for end := time.Now().Add(time.Minute); ; { // nothing tells when it listens
		if count, err = echoAutobahn(t.Context(), base+"/getCaseCount", true); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the fuzzing server does not listen: %v", err)
		}
		<-time.After(100 * time.Millisecond)
	}
	n, err := strconv.Atoi(string(count))
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if _, err := echoAutobahn(t.Context(), fmt.Sprintf("%s/runCase?case=%d&agent=agent", base, i+1), false); err != nil {
			t.Fatalf("case number %d: %v", i+1, err)
		}
	}
	if _, err := echoAutobahn(t.Context(), base+"/updateReports?agent="+url.QueryEscape("agent"), true); err != nil {
		t.Fatal(err)
	}
	return outcomes()
}

// echoAutobahn connects and sends each message back until the connection ends, or only returns the last
// message. The error is of the handshake: a connection that ends badly is what the suite is for.
func echoAutobahn(ctx context.Context, address string, listen bool) (last []byte, err error) {
	c, err := Dial(ctx, address, Options{MessageSize: autobahnLargest, Compression: &Compression{MinSize: 1}})
	if err != nil {
		return nil, err
	}
	defer c.Close(NormalClosure, "")
	var message []byte
	for {
		var kind Kind
		if kind, message, err = c.Read(ctx, message[:0]); err != nil {
			return last, nil
		}
		if listen {
			last = slices.Clone(message)
		} else if c.Write(ctx, kind, message) != nil {
			return nil, nil
		}
	}
}
