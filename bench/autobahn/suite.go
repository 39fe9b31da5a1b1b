package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// release is the suite's last release. It wants Python 2.7. secure is what it needs for wss.
// accelerator has its inner loops in C, for which it needs a C compiler.
const (
	release     = "autobahntestsuite==0.8.2"
	secure      = "pyOpenSSL==21.0.0"
	accelerator = "wsaccel==0.6.2"
)

// An agent takes some minutes, and many on a busy machine; agentTime bounds it. startTime bounds how long the fuzzing
// server takes to listen.
const (
	agentTime = 2 * time.Hour
	startTime = time.Minute
)

// suite is the installed test suite.
type suite struct {
	python, folder string
	temporary      bool
	version        string // of the suite and of Python, as a page says it
}

// needsPython is what to do where there is no Python that runs the suite.
const needsPython = "the Autobahn test suite needs Python 2.7 with pip: install it (pyenv install 2.7.18, for example), " +
	"and have python2.7 in PATH, or say -python PROGRAM"

// findPython finds a Python 2.7 that runs and has pip.
func findPython(ctx context.Context, named string) (string, error) {
	candidates := []string{named}
	if named == "" {
		candidates = []string{"python2.7"}
		if root, err := exec.CommandContext(ctx, "pyenv", "root").Output(); err == nil {
			found, _ := filepath.Glob(filepath.Join(strings.TrimSpace(string(root)), "versions", "2.7.*", "bin", "python2.7"))
			slices.Reverse(found)
			candidates = append(candidates, found...)
		}
	}
	var tried []string
	for _, program := range candidates {
		said, err := exec.CommandContext(ctx, program, "-c", "import sys, pip; assert sys.version_info[:2] == (2, 7), sys.version").CombinedOutput()
		if err == nil {
			return program, nil
		}
		lines := strings.Split(strings.TrimSpace(string(said)), "\n")
		tried = append(tried, strings.TrimSuffix(fmt.Sprintf("%s: %v: %s", program, err, lines[len(lines)-1]), ": "))
	}
	return "", fmt.Errorf("%s\n\ttried %s", needsPython, strings.Join(tried, "\n\ttried "))
}

// install installs the suite into folder, unless it is there; into a temporary one if
// folder is "".
func install(ctx context.Context, python, folder string) (*suite, error) {
	python, err := findPython(ctx, python)
	if err != nil {
		return nil, err
	}
	s := &suite{python: python, folder: folder}
	if folder == "" {
		if s.folder, err = os.MkdirTemp("", "autobahn-"); err != nil {
			return nil, err
		}
		s.temporary = true
	} else if s.folder, err = filepath.Abs(folder); err != nil {
		return nil, err
	}
	if err := s.fill(ctx); err != nil {
		s.remove()
		return nil, err
	}
	return s, nil
}

// fill installs what is not there, and asks for versions.
func (s *suite) fill(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(s.folder, "autobahntestsuite", "wstest.py")); errors.Is(err, fs.ErrNotExist) {
		for _, name := range []string{release, secure} {
			if err := s.pip(ctx, name); err != nil {
				return err
			}
		}
		if err := s.pip(ctx, accelerator); err != nil {
			fmt.Fprintf(os.Stderr, "without it this takes several times as long: %v\n", err)
		}
	}
	// zope.interface has a zope folder that is a package by a .pth file only, which Python
	// does not read in a folder of PYTHONPATH.
	if err := os.WriteFile(filepath.Join(s.folder, "zope", "__init__.py"), nil, 0o666); err != nil {
		return err
	}
	said, err := s.wstest(ctx, "--autobahnversion").Output()
	if err != nil {
		return fmt.Errorf("wstest does not start: %w", err)
	}
	python, err := exec.CommandContext(ctx, s.python, "-c", "import platform; print(platform.python_version())").Output()
	s.version = strings.Join(strings.Split(strings.TrimSpace(string(said)), "\n"), ", ") + ", Python " + strings.TrimSpace(string(python))
	return err
}

// pip installs a package.
func (s *suite) pip(ctx context.Context, name string) error {
	fmt.Fprintf(os.Stderr, "installing %s\n", name)
	cmd := exec.CommandContext(ctx, s.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", s.folder, name)
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("pip install %s: %w\n%s", name, err, tail(said))
	}
	return nil
}

// remove removes the suite if it is in a temporary folder.
func (s *suite) remove() {
	if s.temporary {
		os.RemoveAll(s.folder)
	}
}

// wstest is the suite's program.
func (s *suite) wstest(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.python, slices.Concat([]string{"-W", "ignore", "-m", "autobahntestsuite.wstest"}, args)...)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+s.folder, "PYTHONDONTWRITEBYTECODE=1")
	return cmd
}

// spec is what the suite reads in its modes fuzzingclient and fuzzingserver.
type spec struct {
	URL     string              `json:"url,omitempty"`
	Servers []map[string]string `json:"servers,omitempty"`
	Out     string              `json:"outdir"`
	Cases   []string            `json:"cases"`
	Not     []string            `json:"exclude-cases"`
	NotFor  map[string][]string `json:"exclude-agent-cases"`
}

// fuzz makes the suite's program in a mode, with a specification in folder.
func (s *suite) fuzz(ctx context.Context, folder, mode string, sp spec) (*exec.Cmd, error) {
	sp.Out, sp.Not, sp.NotFor = folder, []string{}, map[string][]string{}
	text, err := json.Marshal(sp)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(folder, "spec.json")
	if err := os.WriteFile(file, text, 0o666); err != nil {
		return nil, err
	}
	return s.wstest(ctx, "--mode", mode, "--spec", file, "--webport", "0"), nil
}

// testServer runs the fuzzing client against the server at a URL.
func (s *suite) testServer(ctx context.Context, url string, cases []string) (outcomes, error) {
	folder, err := os.MkdirTemp("", "autobahn-result-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	ctx, cancel := context.WithTimeout(ctx, agentTime)
	defer cancel()
	cmd, err := s.fuzz(ctx, folder, "fuzzingclient", spec{Servers: []map[string]string{{"agent": "agent", "url": url}}, Cases: cases})
	if err != nil {
		return nil, err
	}
	if said, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("the fuzzing client: %w\n%s", err, tail(said))
	}
	return readOutcomes(folder)
}

// testClient runs the fuzzing server, and has echo connect to it for each case.
func (s *suite) testClient(ctx context.Context, echo client, cases []string) (all outcomes, err error) {
	folder, err := os.MkdirTemp("", "autobahn-result-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	ctx, cancel := context.WithTimeout(ctx, agentTime)
	defer cancel()
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	serving, stop := context.WithCancel(ctx)
	defer stop()
	cmd, err := s.fuzz(serving, folder, "fuzzingserver", spec{URL: "ws://" + addr, Cases: cases})
	if err != nil {
		return nil, err
	}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	defer func() {
		stop()
		<-ended
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, tail(said.Bytes()))
		}
	}()
	if err := listens(ctx, addr, ended); err != nil {
		return nil, err
	}
	if err := echoAll(ctx, "ws://"+addr, echo); err != nil {
		return nil, err
	}
	return readOutcomes(folder)
}

// freeAddr is an address where nobody listens; the suite cannot choose one.
func freeAddr() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer ln.Close()
	return ln.Addr().String(), nil
}

// listens waits until the fuzzing server listens.
func listens(ctx context.Context, addr string, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for {
		if nc, err := net.Dial("tcp", addr); err == nil {
			return nc.Close()
		}
		select {
		case <-look.C:
		case <-ended:
			return errors.New("the fuzzing server has ended at once")
		case <-ctx.Done():
			return fmt.Errorf("the fuzzing server does not listen after %v", startTime)
		}
	}
}

// tail is the end of what a program said.
func tail(said []byte) []byte {
	return bytes.TrimSpace(said[max(0, len(said)-2000):])
}

// outcome is how a case went.
type outcome struct {
	Behavior string `json:"behavior"`      // OK, INFORMATIONAL, NON-STRICT, FAILED …
	Close    string `json:"behaviorClose"` // the same of the closing handshake
}

// outcomes are an agent's, by the case's number, as in "6.4.1".
type outcomes map[string]outcome

// readOutcomes reads the suite's index of one agent.
func readOutcomes(folder string) (outcomes, error) {
	text, err := os.ReadFile(filepath.Join(folder, "index.json"))
	if err != nil {
		return nil, fmt.Errorf("the suite has written no result: %w", err)
	}
	return parseOutcomes(text)
}

// parseOutcomes reads the suite's index of one agent.
func parseOutcomes(text []byte) (outcomes, error) {
	var index map[string]map[string]outcome
	if err := json.Unmarshal(text, &index); err != nil {
		return nil, fmt.Errorf("the suite's result: %w", err)
	}
	if len(index) != 1 {
		return nil, fmt.Errorf("the suite's result has %d agents, want 1", len(index))
	}
	return index[slices.Collect(maps.Keys(index))[0]], nil
}
