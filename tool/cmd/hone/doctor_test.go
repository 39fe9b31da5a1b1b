package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/hone-go/hone/tool/command"
	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/machine"
	"github.com/hone-go/hone/tool/session"
)

// TestDoctorStrict: a bad machine is refused when that is asked for, and whoever
// does not read the table is told why.
func TestDoctorStrict(t *testing.T) {
	diagnosed := func(c machine.Check) *machine.Diagnosis { return machine.Diagnose([]machine.Check{c}, machine.Facts{}) }
	healthy := diagnosed(machine.Check{Name: "backlog", State: machine.Warn, Found: "128", Why: "connections are dropped"})
	ill := diagnosed(machine.Check{Name: "power", State: machine.Bad, Found: "battery", Why: "it runs slower; plug it in"})
	for name, c := range map[string]struct {
		flags doctorFlags
		d     *machine.Diagnosis
		code  int
		says  string
	}{
		"not asked":    {doctorFlags{}, ill, exit.OK, ""},
		"fair":         {doctorFlags{strict: true}, healthy, exit.OK, ""},
		"bad":          {doctorFlags{strict: true}, ill, exit.Invalid, ""},
		"bad, in JSON": {doctorFlags{strict: true, out: session.Output{JSON: true}}, ill, exit.Invalid, "doctor: this machine is not fit for measuring: power battery: it runs slower; plug it in"},
		"bad, a file":  {doctorFlags{strict: true, out: session.Output{File: "out"}}, ill, exit.Invalid, "doctor: this machine is not fit for measuring: power battery: it runs slower; plug it in"},
	} {
		err, end := c.flags.verdict(c.d), &exit.Error{}
		if err != nil && !errors.As(err, &end) {
			t.Errorf("%s: %v", name, err)
		}
		said := ""
		if end.Err != nil {
			said = end.Err.Error()
		}
		if end.Code != c.code || said != c.says {
			t.Errorf("%s: exit code %d, %q", name, end.Code, said)
		}
	}
}

// The live page of a noise session has a segment for each sample, and says how it ended.
func TestNoisePage(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the server is started by sh")
	}
	t.Parallel() // it waits more than it works
	dir := t.TempDir()
	addr, err := freeAddr()
	if err != nil {
		t.Fatal(err)
	}
	scenario := filepath.Join(dir, "hello.toml")
	text := "target = 'tcp://" + addr + "'\ncmd = 'exec hone serve --admin off --addr " + addr + "'\nconns = 2\nrate = 50\nfor = '1s'\n"
	if err := os.WriteFile(scenario, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	said, stderr := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- command.Run(ctx, newRoot(), []string{"doctor", "--noise", "-f", scenario, "--sessions", "3", "-n", "5", "--ui", "127.0.0.1:0", "--store", filepath.Join(dir, "runs")},
			strings.NewReader(""), io.Discard, stderr)
		stderr.Close()
	}()
	line, err := bufio.NewReader(said).ReadString('\n')
	_, url, found := strings.Cut(strings.TrimSpace(line), "live page: ")
	if err != nil || !found {
		t.Fatalf("it says %q, %v", line, err)
	}
	go io.Copy(io.Discard, said)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"events", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var seen strings.Builder
	for events := bufio.NewScanner(response.Body); events.Scan(); {
		seen.WriteString(events.Text() + "\n")
		if strings.Contains(events.Text(), "session 1 of 3, sample 2 of 10: ") {
			cancel()
		}
	}
	if code := <-ended; code != exit.Interrupted {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{`"title":"hone doctor --noise"`, `"text":"session 1 of 3, sample 1 of 10: `, `"status":"interrupted"`} {
		if !strings.Contains(seen.String(), want) {
			t.Errorf("the page lacks %s:\n%s", want, seen.String())
		}
	}
}
