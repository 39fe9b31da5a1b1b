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
	"syscall"
	"testing"

	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/tool/serving"
)

// serveWithFiles starts hone serve with a limit of descriptors. It ends with the test.
func serveWithFiles(t *testing.T, files int, flags ...string) serving.Ready {
	t.Helper()
	cmd := exec.Command("sh", append([]string{"-c", `ulimit -n "$0"; exec hone serve --json --until-eof --addr 127.0.0.1:0 --admin 127.0.0.1:0 "$@"`, strconv.Itoa(files)}, flags...)...)
	cmd.Env = append(os.Environ(), "GORACE="+quickExit)
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
