package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/serving"
)

// withFiles returns hone with these arguments and this limit of descriptors.
func withFiles(files int, args ...string) *exec.Cmd {
	cmd := exec.Command("sh", append([]string{"-c", `ulimit -n "$0"; exec hone "$@"`, strconv.Itoa(files)}, args...)...)
	cmd.Env = append(os.Environ(), "GORACE="+quickExit)
	return cmd
}

// serveWithFiles starts hone serve with a limit of descriptors. It ends with the test.
func serveWithFiles(t *testing.T, files int, flags ...string) serving.Ready {
	t.Helper()
	cmd := withFiles(files, append([]string{"serve", "--json", "--until-eof", "--addr", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, flags...)...)
	var log bytes.Buffer
	cmd.Stderr = &log
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		cmd.Wait() // the drain closes whoever stays
	})
	line, _ := bufio.NewReader(stdout).ReadBytes('\n')
	var ready serving.Ready
	if err := json.Unmarshal(line, &ready); err != nil {
		stdin.Close()
		cmd.Wait()
		t.Fatalf("hone did not start: %s", log.Bytes())
	}
	return ready
}

// crowd opens connections that never send anything.
func crowd(t *testing.T, addr string, n int) {
	t.Helper()
	var own syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &own); err != nil || own.Cur < uint64(n+400) {
		testrun.Lacks(t, fmt.Sprintf("%d connections need more than the %d descriptors here", n, own.Cur))
	}
	for range n {
		nc, err := net.DialTimeout("tcp", addr, patience)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nc.Close() })
	}
}

// Seven hundred silent connections to the admin side of a server with 600 descriptors
// keep no client of the service out, and no operator either.
func TestAdminCrowdKeepsNobodyOut(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"events", "buffered"} {
		t.Run(name, func(t *testing.T) {
			server := serveWithFiles(t, 600, "--engine", name)
			crowd(t, *server.Admin, 700)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			failed, reached := 0, 0
			for range 100 {
				client, err := framed.Dial(ctx, server.Addr, framed.ClientOptions{})
				if err == nil {
					defer client.Close()
					_, err = client.Call(ctx, nil, []byte("hello"))
				}
				if err != nil {
					failed++
				}
			}
			operator := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
			for range 10 {
				if response, err := operator.Get("http://" + *server.Admin + "/healthz"); err == nil {
					response.Body.Close()
					reached++
				}
			}
			if failed > 0 || reached != 10 {
				t.Errorf("%d of 100 newcomers failed, and %d of 10 requests reached the admin side", failed, reached)
			}
		})
	}
}

// A server whose descriptors do not suffice for one connection does not start, and says
// how many it lacks. With that many more it serves.
func TestStartNeedsDescriptors(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"events", "buffered"} {
		t.Run(name, func(t *testing.T) {
			files, runs := 9+inherited(), 0
			for more := 1; more > 0; runs++ { // more than once: with more room, Go's runtime takes some
				if more = lacking(t, files, "serve", "--json", "--until-eof", "--addr", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--engine", name); runs > 3 {
					t.Fatalf("lacks %d descriptors again with %d", more, files)
				}
				files += more
			}
			if runs == 1 {
				t.Errorf("starts with %d descriptors, which proves nothing", files)
			}
			server := serveWithFiles(t, files, "--engine", name)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			client, err := framed.Dial(ctx, server.Addr, framed.ClientOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			if _, err := client.Call(ctx, nil, []byte("hello")); err != nil {
				t.Errorf("a client of a server with %d descriptors: %v", files, err)
			}
			if response, err := http.Get("http://" + *server.Admin + "/healthz"); err != nil {
				t.Error(err)
			} else {
				response.Body.Close()
			}
		})
	}
}

// inherited returns how many descriptors, other than the first three, what this process starts inherits
// from what has started it.
func inherited() (n int) {
	for fd := uintptr(3); fd < 64; fd++ {
		if flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, fd, syscall.F_GETFD, 0); errno == 0 && flags&syscall.FD_CLOEXEC == 0 {
			n++
		}
	}
	return n
}

// lacking runs a server, and returns how many more descriptors it asks for; 0 if it
// starts. It must end: at once, or when its standard input ends.
func lacking(t *testing.T, files int, args ...string) (more int) {
	t.Helper()
	var said, ready bytes.Buffer
	cmd := withFiles(files, args...)
	cmd.Stdout, cmd.Stderr = &ready, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	hangs := time.AfterFunc(patience, func() { cmd.Process.Kill() })
	defer hangs.Stop()
	cmd.Wait()
	code := cmd.ProcessState.ExitCode()
	if code == exit.OK && ready.Len() > 0 {
		return 0
	}
	limit := 0
	_, line, _ := strings.Cut(said.String(), "the limit is ")
	fmt.Sscanf(line, "%d, and a server needs %d more; raise it (ulimit -n, LimitNOFILE)", &limit, &more)
	if code != exit.Failed || ready.Len() > 0 || strings.Count(said.String(), "\n") != 1 || limit != files || more < 1 {
		t.Fatalf("%v with %d descriptors: exit code %d, %q and %q", args, files, code, ready.String(), said.String())
	}
	return more
}
