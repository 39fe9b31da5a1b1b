package machine

import (
	"io"
	"strings"
	"testing"
)

// ward returns a machine with one check of each state.
func ward(states ...State) *Diagnosis {
	known := map[State]Check{
		OK:      {Name: "cpus", State: OK, Found: "4 (0-3)", Want: "at least 2", Why: "one is too few"},
		Unknown: {Name: "turbo", State: Unknown, Want: "off", Why: "the first of two runs wins"},
		Warn: {
			Name: "backlog", State: Warn, Found: "128", Want: "at least 4096", Why: "connections are dropped",
			Fix: "sudo sysctl -w net.core.somaxconn=4096",
		},
		Bad: {Name: "power", State: Bad, Found: "battery", Want: "mains", Why: "it runs slower; plug it in"},
	}
	var checks []Check
	for _, s := range states {
		checks = append(checks, known[s])
	}
	return Diagnose(checks, Facts{})
}

func TestDoctorVerdicts(t *testing.T) {
	for _, c := range []struct {
		states []State
		want   string
		valid  bool
	}{
		{[]State{OK}, "GOOD: no sources of noise found", true},
		{[]State{Unknown, OK}, "GOOD: no sources of noise found, 1 unknown", true},
		{[]State{OK, Warn}, "FAIR: 1 warning", true},
		{[]State{Warn, Warn, Unknown}, "FAIR: 2 warnings, 1 unknown", true},
		{[]State{Bad, Warn}, "BAD: 1 problem, 1 warning", false},
		{[]State{Bad, OK, Bad}, "BAD: 2 problems", false},
	} {
		d := ward(c.states...)
		if got := d.summary(); got != c.want || d.Valid != c.valid || d.Valid != (len(d.InvalidReasons) == 0) {
			t.Errorf("%v: %q, valid %v %q, want %q", c.states, got, d.Valid, d.InvalidReasons, c.want)
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
	if got := written(ward(OK, Warn, Unknown, Bad).Text); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// written returns what a function writes.
func written(write func(io.Writer)) string {
	var b strings.Builder
	write(&b)
	return b.String()
}
