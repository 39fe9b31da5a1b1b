package main

import (
	"errors"
	"testing"

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
