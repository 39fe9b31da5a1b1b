package main

import (
	"bufio"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hone-go/hone/tool/serving"
)

// servers are the running servers of all scripts, one each.
type servers struct{ byScript sync.Map } // *testscript.TestScript → *running

// running is one server.
type running struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

func (s *servers) serve(ts *testscript.TestScript, neg bool, args []string) {
	usual := []string{"serve", "--json", "--addr", "127.0.0.1:0", "--admin", "127.0.0.1:0"}
	s.start(ts, exec.Command("hone", append(usual, args...)...))
}

// activated passes a listening socket in as descriptor 3.
func (s *servers) activated(ts *testscript.TestScript, neg bool, args []string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	defer ln.Close()
	file, err := ln.(*net.TCPListener).File()
	ts.Check(err)
	defer file.Close()
	ts.Setenv("PASSED", ln.Addr().String())
	cmd := exec.Command("sh", append([]string{
		"-c", `LISTEN_FDS=1 LISTEN_PID=$$ exec hone serve --json --admin 127.0.0.1:0 "$@"`, "sh",
	}, args...)...)
	cmd.ExtraFiles = []*os.File{file}
	s.start(ts, cmd)
}

// start starts a server and waits until it is ready.
func (s *servers) start(ts *testscript.TestScript, cmd *exec.Cmd) {
	log, err := os.Create(ts.MkAbs("server.log"))
	ts.Check(err)
	defer log.Close()
	cmd.Stderr, cmd.Dir = log, ts.MkAbs(".")
	cmd.Env = append(os.Environ(), "GORACE="+quickExit)
	stdout, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	r := &running{cmd: cmd, ended: make(chan struct{})}
	first := make(chan []byte, 1)
	go func() {
		lines := bufio.NewReader(stdout)
		line, _ := lines.ReadBytes('\n')
		first <- line
		lines.ReadBytes(0)
		cmd.Wait()
		close(r.ended)
	}()
	ts.Defer(func() {
		cmd.Process.Kill()
		<-r.ended
	})
	s.byScript.Store(ts, r)
	select {
	case line := <-first:
		var ready serving.Ready
		if err := json.Unmarshal(line, &ready); err != nil {
			<-r.ended
			ts.Fatalf("not ready: %q: %s", line, ts.ReadFile("server.log"))
		}
		if ready.PID != cmd.Process.Pid {
			ts.Fatalf("pid %d, want %d", ready.PID, cmd.Process.Pid)
		}
		ts.Setenv("ADDR", ready.Addr)
		ts.Setenv("PID", strconv.Itoa(ready.PID))
		ts.Setenv("ENGINE", ready.Engine)
		if ready.Admin != nil {
			ts.Setenv("ADMIN", *ready.Admin)
		}
	case <-time.After(patience):
		ts.Fatalf("not ready")
	}
}

func (s *servers) of(ts *testscript.TestScript) *running {
	r, ok := s.byScript.Load(ts)
	if !ok {
		ts.Fatalf("no server has been started")
	}
	return r.(*running)
}

func (s *servers) signal(ts *testscript.TestScript, neg bool, args []string) {
	known := map[string]os.Signal{"TERM": syscall.SIGTERM, "INT": os.Interrupt}
	if len(args) != 1 || known[args[0]] == nil {
		ts.Fatalf("usage: signal TERM|INT")
	}
	ts.Check(s.of(ts).cmd.Process.Signal(known[args[0]]))
}

func (s *servers) ended(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: ended N")
	}
	r := s.of(ts)
	select {
	case <-r.ended:
	case <-time.After(patience):
		ts.Fatalf("the server does not end: %s", ts.ReadFile("server.log"))
	}
	if got := strconv.Itoa(r.cmd.ProcessState.ExitCode()); got != args[0] {
		ts.Fatalf("exit code %s, want %s: %s", got, args[0], ts.ReadFile("server.log"))
	}
}
