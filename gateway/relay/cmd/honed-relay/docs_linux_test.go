package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hone-go/hone/internal/testrun"
)

// TestDocs runs the commands of docs/relay.md, as they are but for the ports and folders: honed, a client, the relay,
// PostgreSQL, and kill -9 of the first and the third.
func TestDocs(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	root, dir := filepath.Join("..", "..", "..", ".."), t.TempDir()
	page := string(mustRead(t, filepath.Join(root, "docs", "relay.md")))
	script := regexp.MustCompile("(?s)```sh\n(.*?)```").FindStringSubmatch(page)
	if script == nil {
		t.Fatal("docs/relay.md has no commands")
	}
	text := script[1]
	for _, port := range []string{"7100", "7171", "7172"} {
		_, free, _ := strings.Cut(testrun.FreeAddr(t), ":")
		text = strings.ReplaceAll(text, port, free)
		if port == "7172" { // the default
			text = strings.ReplaceAll(text, "honed-relay --from", "honed-relay --admin 127.0.0.1:"+free+" --from")
		}
	}
	text = strings.ReplaceAll(strings.ReplaceAll(text, "./honed-data", dir+"/log"), "./relay-data", dir+"/relay")
	bin := filepath.Dir(binary(t))
	must(t, os.Symlink(mustAbs(t, os.Args[0]), filepath.Join(bin, "honed-relay")))
	ctx, cancel := context.WithTimeout(t.Context(), patience())
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", "set -eu\n"+text+"\nkill $(jobs -p)\nwait\n")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+filepath.Dir(d.bin)+":"+os.Getenv("PATH"), "PGURL="+d.url())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := d.ask("select (count(*) = count(distinct (client, epoch, seq)) and count(*) > 100)::text from hone_messages"); got != "true" {
		t.Errorf("%s messages: %s\n%s", d.ask("select count(*)::text from hone_messages"), got, out)
	}
	if !strings.Contains(string(out), "REASON") {
		t.Errorf("%s", out)
	}
}

func mustAbs(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	must(t, err)
	return abs
}
