package gateway

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hone-go/hone/internal/testrun"
)

// TestPython has a second client, written in another language, check the protocol.
func TestPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		testrun.Lacks(t, "python3 is missing; make deps installs it")
	}
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, []byte("python a-token-for-python\nother another-token-there-is\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, err := ReadTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		tokens *Tokens
		args   []string
	}{
		"open":   {nil, nil},
		"tokens": {tokens, []string{"a-token-for-python"}},
	} {
		t.Run(name, func(t *testing.T) {
			log := newGate()
			up := serve(t, &Server{Log: log, Tokens: c.tokens})
			host, port, _ := net.SplitHostPort(up.addr)
			out, err := exec.CommandContext(soon(t), python, append([]string{"conformance/client.py", host, port}, c.args...)...).CombinedOutput()
			if err != nil || !strings.HasSuffix(string(out), "all passed\n") {
				t.Fatalf("%v\n%s", err, out)
			}
			for client, got := range records(t, log) {
				if len(got) != 503 || got[0] != "record 1" || got[500] != "record 501" {
					t.Errorf("%s: %d records, the first is %q", client, len(got), got[0])
				}
			}
			fmt.Fprint(t.Output(), string(out))
		})
	}
}

// TestPythonDevice runs a device that keeps its session in a file, several times.
func TestPythonDevice(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		testrun.Lacks(t, "python3 is missing; make deps installs it")
	}
	log := newGate()
	up := serve(t, &Server{Log: log})
	host, port, _ := net.SplitHostPort(up.addr)
	folder := t.TempDir()
	send := func(store string, from, to int) (string, error) {
		cmd := exec.CommandContext(soon(t), python, "conformance/device.py", host, port, "meter", "--store", filepath.Join(folder, store))
		var lines strings.Builder
		for n := from; n <= to; n++ {
			fmt.Fprintln(&lines, n)
		}
		cmd.Stdin = strings.NewReader(lines.String())
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	each := testrun.Sized(20, 50) // it stores each line with an fsync
	for from := range 3 {
		if out, err := send("first", from*each+1, from*each+each); err != nil || out != "" {
			t.Fatal(err, out)
		}
	}
	got := records(t, log)["meter"]
	for i, data := range got {
		if data != fmt.Sprint(i+1) {
			t.Fatalf("record %d is %q", i+1, data)
		}
	}
	if len(got) != 3*each {
		t.Errorf("%d records instead of %d", len(got), 3*each)
	}
	if out, err := send("second", 1, 1); err != nil || out != "" {
		t.Fatal(err, out)
	}
	if out, err := send("first", 1, 1); err == nil || !strings.Contains(out, "stopped: fenced") {
		t.Error("two devices with one name:", err, out)
	}
}
