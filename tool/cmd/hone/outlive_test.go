package main

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hone-go/hone/wire"
)

// TestServersOutliveTheReaderOfTheirLog closes the reading ends of a server's standard output and
// standard error. It logs, keeps its connections, and drains with exit code 0.
func TestServersOutliveTheReaderOfTheirLog(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs signals, which Windows does not send to processes")
	}
	t.Parallel()
	t.Run("serve", func(t *testing.T) {
		s := startUnread(t, "serve", "--service", "faults")
		kept := s.dial(t)
		askFrame(t, kept, "reply 3", "xxx")
		broken := s.dial(t)
		broken.Write(wire.Append(nil, wire.Packet{Command: wire.Submit, ID: 1, Content: []byte("panic")}))
		io.Copy(io.Discard, broken) // the panic is logged before the connection ends
		askFrame(t, kept, "reply 4", "xxxx")
		s.drains(t)
	})
}

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

// unread is a server whose log nobody reads.
type unread struct {
	cmd   *exec.Cmd
	addr  string
	ended chan error
}

// startUnread starts a server, waits until its log says that it serves, and then stops reading
// what it writes.
func startUnread(t *testing.T, args ...string) *unread {
	t.Helper()
	cmd := exec.Command("hone", append(args, "--addr", "127.0.0.1:0", "--admin", "off")...)
	cmd.Env = append(os.Environ(), "GORACE="+quickExit)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	u := &unread{cmd: cmd, ended: make(chan error, 1)}
	late := time.AfterFunc(patience, func() { cmd.Process.Kill() })
	serves := regexp.MustCompile(`msg=serving addr=(\S+)`)
	var said strings.Builder
	for log := bufio.NewScanner(stderr); u.addr == "" && log.Scan(); {
		said.WriteString(log.Text() + "\n")
		if m := serves.FindStringSubmatch(log.Text()); m != nil {
			u.addr = m[1]
		}
	}
	stdout.Close()
	stderr.Close()
	go func() { u.ended <- cmd.Wait() }()
	t.Cleanup(func() {
		cmd.Process.Kill()
		late.Stop()
	})
	if u.addr == "" {
		t.Fatalf("not ready: %s", &said)
	}
	return u
}

func (u *unread) dial(t *testing.T) net.Conn {
	t.Helper()
	nc, err := net.Dial("tcp", u.addr)
	if err != nil {
		t.Fatalf("the server does not answer: %v", err)
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(patience))
	return nc
}

// drains expects exit code 0 after SIGTERM.
func (u *unread) drains(t *testing.T) {
	t.Helper()
	if err := u.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatalf("the server has ended: %v", err)
	}
	if err := <-u.ended; err != nil {
		t.Errorf("the server ended with %v, want exit code 0", err)
	}
}

// askFrame sends a request and expects its answer.
func askFrame(t *testing.T, nc net.Conn, request, want string) {
	t.Helper()
	nc.Write(wire.Append(nil, wire.Packet{Command: wire.Submit, ID: 7, Content: []byte(request)}))
	frame := wire.Append(nil, wire.Packet{Command: wire.SubmitAck, ID: 7, Content: []byte(want)})
	got := make([]byte, len(frame))
	if _, err := io.ReadFull(nc, got); err != nil || !bytes.Equal(got, frame) {
		t.Fatalf("%q: got %q, %v", request, got, err)
	}
}
