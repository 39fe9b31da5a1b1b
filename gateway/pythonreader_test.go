package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/internal/testrun"
)

// TestPythonReader runs the reader in Python, written from docs/readers.md alone: it gets everything once and in
// order, across a second run and a server that is killed, and its refusals.
func TestPythonReader(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		testrun.Lacks(t, "python3 is missing; make deps installs it")
	}
	tokens, err := ReadTokens(tokensOf(t, 0o600, "copy the-token-of-the-reader reads", "a the-token-of-client-a"))
	if err != nil {
		t.Fatal(err)
	}
	var log Memory
	up := serve(t, &Server{Log: &log, Tokens: tokens, positionTime: time.Millisecond})
	host, port, _ := net.SplitHostPort(up.addr)
	read := func(args ...string) (string, error) {
		cmd := exec.CommandContext(soon(t), python, append([]string{"conformance/reader.py", host, port}, args...)...)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, errs.String())
		}
		return string(out), err
	}
	c := &Client{Addrs: []string{up.addr}, ID: "a", Token: "the-token-of-client-a"}
	t.Cleanup(func() { c.Close(soon(t)) })
	submit := func(n int) {
		for range n {
			if _, err := c.SubmitAsync(soon(t), bytes.Repeat([]byte("x"), 300), nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Flush(soon(t)); err != nil {
			t.Fatal(err)
		}
	}
	submit(10_000) // more than the window
	seq := uint64(0)
	check := func(out string, n int) {
		t.Helper()
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if len(lines) != n {
			t.Fatalf("%d lines instead of %d", len(lines), n)
		}
		for _, line := range lines {
			var m struct {
				Client string
				Seq    uint64
				Data   []byte
			}
			if err := json.Unmarshal([]byte(line), &m); err != nil || m.Client != "a" || m.Seq != seq+1 || len(m.Data) != 300 {
				t.Fatalf("%v: %.200s after %d", err, line, seq)
			}
			seq++
		}
	}
	ofReader := tokensOf(t, 0o600, "the-token-of-the-reader")
	out, err := read("copy", "--token-file", ofReader, "--count", "10000")
	if err != nil {
		t.Fatal(err)
	}
	check(out, 10_000)
	waitFor(t, "its position", func() bool { return up.state("copy").Position.Number == up.newest()<<indexBits|lastIndex }) // all of the last envelope
	submit(100)
	if out, err = read("copy", "--token-file", ofReader, "--start", "stored", "--count", "100"); err != nil {
		t.Fatal(err)
	}
	check(out, 100)
	for _, args := range [][]string{{"copy", "--token-file", tokensOf(t, 0o600, "the-token-of-client-a")}, {"copy", "--token-file", ofReader, "--share", "1/2"}} {
		out, err := read(args...)
		if text := fmt.Sprint(err); !strings.Contains(text, "refused") || out != "" {
			t.Errorf("%v: %s, %.200s", args, text, out)
		}
	}
	source, err := os.ReadFile("conformance/reader.py")
	if n := bytes.Count(source, []byte("\n")); err != nil || n > 250 {
		t.Errorf("reader.py has %d lines; the limit is 250", n)
	}
}
