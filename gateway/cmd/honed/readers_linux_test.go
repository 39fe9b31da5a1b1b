package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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
		works(t)(c.SubmitAsync(ctx, fmt.Append(nil, i), nil))
	}
	must(t, c.Close(ctx))
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
	addrs := [2]string{testrun.FreeAddr(t), testrun.FreeAddr(t)}
	script = strings.NewReplacer("127.0.0.1:7100", addrs[0], "127.0.0.1:7171", addrs[1],
		"./honed-data", filepath.Join(dir, "data"), "gateway/python", filepath.Join(root, "gateway/python"),
		"&\n", "&\nuntil (exec 3<>/dev/tcp/"+strings.Replace(addrs[0], ":", "/", 1)+") 2>/dev/null; do sleep 0.05; done\n").Replace(script)
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
