package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/machine"
	"github.com/hone-go/hone/tool/session"
)

// ward is a machine with one check of each state.
func ward(states ...machine.State) *diagnosis {
	known := map[machine.State]machine.Check{
		machine.OK:      {Name: "cpus", State: machine.OK, Found: "4 (0-3)", Want: "at least 2", Why: "one is too few"},
		machine.Unknown: {Name: "turbo", State: machine.Unknown, Want: "off", Why: "the first of two runs wins"},
		machine.Warn: {
			Name: "backlog", State: machine.Warn, Found: "128", Want: "at least 4096", Why: "connections are dropped",
			Fix: "sudo sysctl -w net.core.somaxconn=4096",
		},
		machine.Bad: {Name: "power", State: machine.Bad, Found: "battery", Want: "mains", Why: "it runs slower; plug it in"},
	}
	var checks []machine.Check
	for _, s := range states {
		checks = append(checks, known[s])
	}
	return diagnose(checks, machine.Facts{})
}

func TestDoctorVerdicts(t *testing.T) {
	for _, c := range []struct {
		states []machine.State
		want   string
		valid  bool
	}{
		{[]machine.State{machine.OK}, "GOOD: nothing is known to stand in the way", true},
		{[]machine.State{machine.Unknown, machine.OK}, "GOOD: nothing is known to stand in the way, 1 unknown", true},
		{[]machine.State{machine.OK, machine.Warn}, "FAIR: 1 warning", true},
		{[]machine.State{machine.Warn, machine.Warn, machine.Unknown}, "FAIR: 2 warnings, 1 unknown", true},
		{[]machine.State{machine.Bad, machine.Warn}, "BAD: 1 problem, 1 warning", false},
		{[]machine.State{machine.Bad, machine.OK, machine.Bad}, "BAD: 2 problems", false},
	} {
		d := ward(c.states...)
		if got := d.summary(); got != c.want || d.Valid != c.valid || d.Valid != (len(d.InvalidReasons) == 0) {
			t.Errorf("%v: %q, valid %v %q, want %q", c.states, got, d.Valid, d.InvalidReasons, c.want)
		}
	}
}

// TestDoctorStrict: a bad machine is refused when that is asked for, and whoever
// does not read the table is told why.
func TestDoctorStrict(t *testing.T) {
	healthy, ill := ward(machine.OK, machine.Warn), ward(machine.OK, machine.Bad)
	for name, c := range map[string]struct {
		flags doctorFlags
		d     *diagnosis
		code  int
		says  string
	}{
		"not asked":    {doctorFlags{}, ill, exit.OK, ""},
		"fair":         {doctorFlags{strict: true}, healthy, exit.OK, ""},
		"bad":          {doctorFlags{strict: true}, ill, exit.Invalid, ""},
		"bad, in JSON": {doctorFlags{strict: true, out: outputFlags{session.Output{JSON: true}}}, ill, exit.Invalid, "doctor: no place to measure: power battery: it runs slower; plug it in"},
		"bad, a file":  {doctorFlags{strict: true, out: outputFlags{session.Output{File: "out"}}}, ill, exit.Invalid, "doctor: no place to measure: power battery: it runs slower; plug it in"},
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

func TestDoctorText(t *testing.T) {
	const want = `BAD: 1 problem, 1 warning, 1 unknown
state    what     found    wanted
ok       cpus     4 (0-3)  at least 2
warn     backlog  128      at least 4096
unknown  turbo    –        off
bad      power    battery  mains

power: it runs slower; plug it in

backlog: connections are dropped
  fix: sudo sysctl -w net.core.somaxconn=4096
`
	if got := ward(machine.OK, machine.Warn, machine.Unknown, machine.Bad).text(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestDoctorScript: only commands and comments, in words that a shell can read.
func TestDoctorScript(t *testing.T) {
	const want = scriptHead + `
# backlog is 128, wanted: at least 4096.
# connections are dropped.
sudo sysctl -w net.core.somaxconn=4096
`
	all := ward(machine.OK, machine.Warn, machine.Unknown, machine.Bad).script()
	if all != want {
		t.Errorf("got\n%swant\n%s", all, want)
	}
	none := ward(machine.OK, machine.Bad).script()
	for line := range strings.Lines(none) {
		if line != "\n" && !strings.HasPrefix(line, "#") {
			t.Errorf("nothing can be mended, and yet: %s", line)
		}
	}
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("there is no sh to read the scripts")
	}
	for _, text := range []string{all, none} {
		path := filepath.Join(t.TempDir(), "fix.sh")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(shell, "-n", path).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s\n%s", err, out, text)
		}
	}
}
