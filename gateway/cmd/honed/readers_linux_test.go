package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hone-go/hone/gateway"
	"github.com/hone-go/hone/gateway/internal/commandline"
	"github.com/hone-go/hone/internal/testrun"
)

// submits stores n records of a client.
func submits(t *testing.T, addr, client string, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := &gateway.Client{Addrs: []string{addr}, ID: client}
	for i := range n {
		if _, err := c.SubmitAsync(ctx, fmt.Append(nil, i), nil); err != nil {
			t.Fatal(err)
		}
	}
	must(t, c.Close(ctx))
}

// firstLine ends a command when it has written something.
type firstLine struct {
	strings.Builder
	end context.CancelFunc
}

func (f *firstLine) Write(p []byte) (int, error) {
	defer f.end()
	return f.Builder.Write(p)
}

// TestTailSaysWhyItWaits has a server that closes connections without an answer, as one with TLS does.
func TestTailSaysWhyItWaits(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			nc.(*net.TCPConn).CloseWrite()
			io.Copy(io.Discard, nc) // a reset would lose the end
			nc.Close()
		}
	})
	defer accepting.Wait()
	defer ln.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	errs := &firstLine{end: cancel}
	if err := tail(ctx, []string{"--addr", ln.Addr().String()}, io.Discard, errs); !errors.Is(err, commandline.ErrInterrupted) || !strings.Contains(errs.String(), "does it expect TLS?") {
		t.Error(err, errs.String())
	}
}

// TestReaderVerbs runs honed tail, readers and sessions beside a running honed.
func TestReaderVerbs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	g := startGateway(t, dir, "127.0.0.1:0")
	submits(t, g.addr, "door-1", 3)
	submits(t, g.addr, "meter-1", 5)
	prints := func(lines int, args ...string) (out string) {
		t.Helper()
		code, out, errs := honed(t, args...)
		if code != commandline.OK || strings.Count(out, "\n") != lines {
			t.Fatalf("%v: %d, %d lines instead of %d\n%s%s", args, code, strings.Count(out, "\n"), lines, out, errs)
		}
		return out
	}
	all := prints(8, "tail", "--addr", g.addr)
	var first, second commandline.RecordLine
	in := json.NewDecoder(strings.NewReader(all))
	if err := errors.Join(in.Decode(&first), in.Decode(&second)); err != nil || first.Client != "door-1" || string(second.Data) != "1" || first.Seq != 1 {
		t.Errorf("%v, %+v, %+v", err, first, second)
	}
	prints(7, "tail", "--addr", g.addr, "--from", second.Number)
	prints(5, "tail", "--addr", g.addr, "--client", "meter-1")
	prints(3, "tail", "--addr", g.addr, "--prefix", "door-")
	prints(0, "tail", "--addr", g.addr, "--from", "next")
	prints(0, "tail", "--addr", g.addr, "--from", time.Now().Add(time.Hour).Format(time.RFC3339))

	with := func(args ...string) []string { return append(args, "--data", dir) }
	prints(0, with("readers", "list")...)
	prints(0, with("readers", "create", "copy", "--shares", "2", "--expire", "720h")...)
	if out := prints(2, with("readers", "list", "--json")...); !strings.Contains(out, `"name":"copy"`) || !strings.Contains(out, `"shares":2`) {
		t.Error(out)
	}
	if out := prints(3, with("readers", "list")...); !strings.Contains(out, "\ncopy  0      2   ") || strings.Count(out, "\ncopy  1      2   ") != 1 {
		t.Error(out)
	}
	prints(0, with("readers", "split", "copy", "--shares", "3")...)
	prints(0, with("readers", "move", "copy", "--from", "next")...)
	prints(4, with("readers")...)
	eventually(t, "the lag in the metrics", func() bool {
		text := get(t, "http://"+g.admin+"/gateway/metrics")
		return strings.Contains(text, `honed_reader_lag_records{reader="copy",share="2"} 0`) && strings.Contains(text, "honed_retention_held_bytes 0")
	})
	prints(0, with("readers", "remove", "copy")...)
	prints(0, with("readers", "list")...)
	if out := prints(3, with("sessions", "list")...); !strings.Contains(out, "  5     0s ago\n") {
		t.Error(out)
	}
	prints(1, with("sessions", "list", "--json", "--prefix", "met")...)
	prints(0, with("sessions", "list", "--prefix", "none")...)
	prints(0, with("sessions", "forget", "meter-1")...)
	prints(1, with("sessions", "list", "--json")...)
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{commandline.Failed, "nothing is stored for a reader of this name", with("readers", "move", "none")},
		{commandline.Failed, "there is no session", with("sessions", "forget", "none")},
		{commandline.Failed, "a reader has 1 to 1024 shares", with("readers", "create", "x", "--shares", "5000")},
		{commandline.Usage, "all but list need a NAME", with("readers", "burn", "x")},
		{commandline.Usage, "all but list need a NAME", with("readers", "move")},
		{commandline.Usage, "not first, next, a time", with("readers", "move", "x", "--from", "soon")},
		{commandline.Usage, "not first, next, a time", []string{"tail", "--from", "soon"}},
		{commandline.Usage, "--name: a name has 1 to 64 characters, printable ASCII without spaces, not \"aaaa", []string{"tail", "--name", strings.Repeat("a", 65)}},
		{commandline.Failed, "nobody answers on ./none", []string{"readers", "list", "--data", "./none"}},
		{commandline.Usage, "--retain-hard needs one of them", []string{"serve", "--retain-hard"}},
	} {
		if code, _, errs := honed(t, c.args...); code != c.code || !strings.Contains(errs, c.says) {
			t.Errorf("%v: %d %s; want %d, … %s …", c.args, code, errs, c.code, c.says)
		}
	}
	// The admin side changes nothing.
	answer, err := http.Post("http://"+g.admin+readersPath, "application/json", strings.NewReader(`{"do":"create","name":"evil","start":1}`))
	must(t, err)
	answer.Body.Close()
	if answer.StatusCode != http.StatusMethodNotAllowed {
		t.Error(answer.Status)
	}
	prints(0, with("readers", "list")...)
	if code, out, errs := honed(t, "export", "--data", dir); code != commandline.OK || !strings.Contains(out, `"reader":"copy"`) || !strings.Contains(out, `"removed":true`) || !strings.Contains(out, `"log":"`) {
		t.Errorf("%d %.2000s%s", code, out, errs)
	}
}

// heard is what a reader has printed in all its lives.
type heard struct {
	mu       sync.Mutex
	last     map[string]int // by client
	lines    int
	problems []string
	changed  chan struct{} // something came
}

// listen takes in one life. A last line that was cut off does not count.
func (h *heard) listen(out io.Reader) {
	in, before := bufio.NewReader(out), uint64(0)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		var number uint64
		var client string
		var seq int
		fmt.Sscan(line, &number, &client, &seq)
		h.mu.Lock()
		h.lines++
		if seq > h.last[client]+1 {
			h.problems = append(h.problems, fmt.Sprintf("client %s: %d comes after %d", client, seq, h.last[client]))
		}
		if number <= before {
			h.problems = append(h.problems, fmt.Sprintf("number %d comes after %d in one life", number, before))
		}
		before, h.last[client] = number, max(h.last[client], seq)
		h.mu.Unlock()
		select {
		case h.changed <- struct{}{}:
		default:
		}
	}
}

// TestReadersKilled kills honed and its readers with kill -9 while clients send: each reader gets each record at
// least once, and each client's records in order.
func TestReadersKilled(t *testing.T) {
	clients, each := 8, testrun.Sized(8_000, 625_000)
	gatewayKills, readerKills := testrun.Sized(5, 20), testrun.Sized(3, 5)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	gw := &victim{dir: filepath.Join(t.TempDir(), "log")}
	gw.start(t)
	defer func() { gw.kill() }()
	addr := gw.addr
	var sending sync.WaitGroup
	for n := range clients {
		sending.Go(func() {
			c := &gateway.Client{Addrs: []string{addr}, ID: fmt.Sprint("c", n)}
			for i := range each {
				if _, err := c.SubmitAsync(ctx, fmt.Append(nil, i), nil); err != nil {
					t.Error(err)
					break
				}
			}
			if err := c.Close(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	var reading sync.WaitGroup
	all := make([]*heard, 2)
	for i := range all {
		h := &heard{last: map[string]int{}, changed: make(chan struct{}, 1)}
		all[i] = h
		reading.Go(func() {
			for life := 0; ; life++ {
				cmd := exec.CommandContext(ctx, os.Args[0], "test-reader", addr, fmt.Sprint("r", i))
				cmd.Stderr = os.Stderr
				out, err := cmd.StdoutPipe()
				if err == nil {
					err = cmd.Start()
				}
				if err != nil {
					t.Error(err)
					return
				}
				var listening sync.WaitGroup
				ended := make(chan struct{})
				listening.Go(func() { h.listen(out); close(ended) })
				until := h.count() + 1 + rand.IntN(clients*each/(readerKills+1))
				for (h.count() < until || life >= readerKills) && !h.complete(clients, each) && ctx.Err() == nil {
					select {
					case <-h.changed:
					case <-ended:
						t.Error("a reader has ended by itself")
						return
					case <-ctx.Done():
						t.Error("it takes too long")
					}
				}
				cmd.Process.Kill()
				listening.Wait()
				cmd.Wait()
				if ctx.Err() != nil || h.complete(clients, each) && life >= readerKills {
					return
				}
			}
		})
	}
	for kill := range gatewayKills {
		for all[0].count() < (kill+1)*clients*each/(gatewayKills+2) && ctx.Err() == nil {
			select {
			case <-all[0].changed:
			case <-ctx.Done():
			case <-time.After(10 * time.Millisecond): // the reader took the word
			}
		}
		gw.kill()
		gw.start(t)
	}
	sending.Wait()
	reading.Wait()
	for i, h := range all {
		if len(h.problems) > 0 {
			t.Errorf("reader %d: %d problems: %.500s", i, len(h.problems), h.problems)
		}
		t.Logf("reader %d: %d records, %d of them again", i, clients*each, h.lines-clients*each)
	}
}

func (h *heard) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lines
}

func (h *heard) complete(clients, each int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for n := range clients {
		if h.last[fmt.Sprint("c", n)] < each {
			return false
		}
	}
	return true
}

// TestReadersPage runs the commands at the beginning of docs/readers.md, on free ports.
func TestReadersPage(t *testing.T) {
	t.Parallel() // it waits more than it works
	page, err := os.ReadFile("../../../docs/readers.md")
	must(t, err)
	_, script, _ := strings.Cut(string(page), "```sh\n")
	script, _, found := strings.Cut(script, "```")
	if !found || strings.Count(script, "\n") < 10 {
		t.Fatalf("docs/readers.md has no commands: %q", script)
	}
	if _, err := exec.LookPath("python3"); err != nil {
		testrun.Lacks(t, "python3 is missing; make deps installs it")
	}
	dir := t.TempDir()
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, filepath.Join(dir, "honed")) // TestMain does what honed does
	}
	must(t, err)
	root, err := filepath.Abs("../../..")
	must(t, err)
	ports := [2]string{freePort(t), freePort(t)}
	script = strings.NewReplacer("127.0.0.1:7100", "127.0.0.1:"+ports[0], "127.0.0.1:7171", "127.0.0.1:"+ports[1],
		"./honed-data", filepath.Join(dir, "data"), "gateway/python", filepath.Join(root, "gateway/python"),
		"&\n", "&\nuntil (exec 3<>/dev/tcp/127.0.0.1/"+ports[0]+") 2>/dev/null; do sleep 0.05; done\n").Replace(script)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", "-e", "-c", script+"kill $!; wait $!\n")
	shell.Dir, shell.Env = dir, append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	shell.SysProcAttr, shell.WaitDelay = &syscall.SysProcAttr{Setpgid: true}, 5*time.Second
	shell.Cancel = func() error { return syscall.Kill(-shell.Process.Pid, syscall.SIGKILL) }
	out, err := shell.CombinedOutput()
	t.Logf("%s", out)
	must(t, err)
	// Each client's records are in order, over both runs of the reader.
	last, lines := map[string]int{}, 0
	for _, file := range []string{"first.jsonl", "second.jsonl"} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		must(t, err)
		for line := range strings.Lines(string(text)) {
			var m commandline.RecordLine
			must(t, json.Unmarshal([]byte(line), &m))
			session := fmt.Sprint(m.Client, m.Epoch)
			if m.Seq > uint64(last[session]+1) {
				t.Errorf("%s: %d comes after %d", session, m.Seq, last[session])
			}
			last[session] = max(last[session], int(m.Seq))
			lines++
		}
	}
	if lines < 1000 || len(last) < 2 {
		t.Errorf("%d lines of %d sessions", lines, len(last))
	}
}

// freePort returns a port that nobody uses now.
func freePort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer ln.Close()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	return port
}
