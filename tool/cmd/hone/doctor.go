package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/figure"
	"github.com/hone-go/hone/tool/machine"
	"github.com/hone-go/hone/tool/session"
	"github.com/hone-go/hone/tool/view"
)

// doctorFlags are doctor's, as they were given.
type doctorFlags struct {
	quick, strict, script bool
	out                   outputFlags
	noise                 noiseFlags
}

func newDoctor() *cobra.Command {
	f := new(doctorFlags)
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what stands in the way of a good measurement, and how to remove it",
		Long: `Say what stands in the way of a good measurement, and how to remove it.

It looks at the processors, the clock, memory, and the system's limits on
connections, and watches for a second what others do. It changes nothing: what
can be mended comes with the command to type, which lasts until the next boot.

GOOD means that nothing was found, FAIR that figures may differ by what was
found, BAD that they would be wrong. What cannot be seen here is unknown.

With --noise it builds the same server twice, measures both builds in turn, which takes
some minutes, and stores the figures as a session. Once there are four sessions of a
scenario, hone bench and hone compare know how much builds of the same source differ
on this machine, and widen every interval accordingly. Measure eight, on several
days. hone run list shows them (by noise), hone run rm removes them.

Exit codes: 0 when it could look, 4 with --strict when the machine is BAD, or when
noise could not be measured.`,
		Example: `  hone doctor
  hone doctor --strict && hone load 127.0.0.1:7000 -c 100
  hone doctor --fix-script -o fix.sh
  hone doctor --quick --json
  hone doctor --noise
  hone doctor --noise -f hello.toml`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.noise.wanted {
				return f.noise.run(cmd, &f.out)
			}
			return f.run(cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVar(&f.quick, "quick", false, "do not watch what others do: what needs that is unknown")
	flags.BoolVar(&f.strict, "strict", false, "exit code 4 when the machine is BAD")
	flags.BoolVar(&f.script, "fix-script", false, "print only the commands that mend, as a shell script")
	f.noise.define(cmd)
	f.out.define(cmd)
	return cmd
}

// run looks, writes what it has found and makes the exit code.
func (f *doctorFlags) run(stdout, stderr io.Writer) error {
	if f.out.JSON && f.script {
		return exit.Usagef("doctor: choose one of --json and --fix-script")
	}
	d := diagnose(f.look(stderr), machine.Read())
	err := f.out.Stream("doctor", stdout, func(w io.Writer) error {
		switch {
		case f.out.JSON:
			return session.WriteJSON(w, d)
		case f.script:
			_, err := io.WriteString(w, d.script())
			return err
		}
		_, err := io.WriteString(w, d.text())
		return err
	})
	if err != nil {
		return err
	}
	return f.verdict(d)
}

// verdict is the exit code.
func (f *doctorFlags) verdict(d *diagnosis) error {
	switch {
	case !f.strict || d.Valid:
		return nil
	case f.out.File == "" && !f.out.JSON && !f.script: // its first line has said so
		return &exit.Error{Code: exit.Invalid}
	}
	return &exit.Error{Code: exit.Invalid, Err: errors.New("doctor: no place to measure: " + strings.Join(d.InvalidReasons, "; "))}
}

// look makes the checks, and says on a terminal why that takes its time.
func (f *doctorFlags) look(stderr io.Writer) []machine.Check {
	if f.quick {
		return machine.QuickChecks()
	}
	if view.IsTerminal(stderr) {
		fmt.Fprint(stderr, "watching for a second what others do")
		defer fmt.Fprint(stderr, "\r\x1b[K")
	}
	return machine.Checks()
}

// diagnosis is the result, also in JSON.
type diagnosis struct {
	Schema         string          `json:"schema"`
	Valid          bool            `json:"valid"` // false: BAD
	InvalidReasons []string        `json:"invalid_reasons"`
	Verdict        string          `json:"verdict"`
	Checks         []machine.Check `json:"checks"`
	Machine        machine.Facts   `json:"machine"`
}

// The verdicts.
const (
	goodMachine = "good"
	fairMachine = "fair"
	badMachine  = "bad"
)

// diagnose makes the verdict: the worst check's.
func diagnose(checks []machine.Check, facts machine.Facts) *diagnosis {
	d := &diagnosis{Schema: "hone.doctor/1", InvalidReasons: []string{}, Verdict: goodMachine, Checks: checks, Machine: facts}
	for _, c := range checks {
		switch c.State {
		case machine.Bad:
			d.InvalidReasons = append(d.InvalidReasons, c.Name+" "+c.Found+": "+c.Why)
			d.Verdict = badMachine
		case machine.Warn:
			if d.Verdict == goodMachine {
				d.Verdict = fairMachine
			}
		}
	}
	d.Valid = d.Verdict != badMachine
	return d
}

func (d *diagnosis) count(s machine.State) (n int) {
	for _, c := range d.Checks {
		if c.State == s {
			n++
		}
	}
	return n
}

// summary is the verdict in one line.
func (d *diagnosis) summary() string {
	found := []string{"nothing is known to stand in the way"}
	if d.Verdict != goodMachine {
		found = nil
	}
	if n := d.count(machine.Bad); n > 0 {
		found = append(found, figure.Counted(n, "problem"))
	}
	if n := d.count(machine.Warn); n > 0 {
		found = append(found, figure.Counted(n, "warning"))
	}
	if n := d.count(machine.Unknown); n > 0 {
		found = append(found, fmt.Sprintf("%d unknown", n))
	}
	return strings.ToUpper(d.Verdict) + ": " + strings.Join(found, ", ")
}

// wrong are the checks that something has to be done about, the worst first.
func (d *diagnosis) wrong() (checks []machine.Check) {
	for _, state := range []machine.State{machine.Bad, machine.Warn} {
		for _, c := range d.Checks {
			if c.State == state {
				checks = append(checks, c)
			}
		}
	}
	return checks
}

func (d *diagnosis) text() string {
	var b strings.Builder
	fmt.Fprintln(&b, d.summary())
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "state\twhat\tfound\twanted")
	for _, c := range d.Checks {
		found := c.Found
		if found == "" {
			found = "–"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", c.State, c.Name, found, c.Want)
	}
	table.Flush()
	for _, c := range d.wrong() {
		fmt.Fprintf(&b, "\n%s: %s\n", c.Name, c.Why)
		if c.Fix != "" {
			fmt.Fprintln(&b, "  fix:", c.Fix)
		}
	}
	return b.String()
}

// scriptHead is what to know before running a script. Commands about limits are
// about the shell that runs them.
const scriptHead = `#!/bin/sh
# What hone doctor would change here. Nothing has been changed yet: read it first.
# Run it with a dot, as in ". ./fix.sh": limits are those of the shell that sets them.
`

// script is the commands that mend, each under its reason.
func (d *diagnosis) script() string {
	var b strings.Builder
	for _, c := range d.wrong() {
		if c.Fix != "" {
			fmt.Fprintf(&b, "\n# %s is %s, wanted: %s.\n# %s.\n%s\n", c.Name, c.Found, c.Want, c.Why, c.Fix)
		}
	}
	if b.Len() == 0 {
		b.WriteString("\n# There is no command that would mend anything.\n")
	}
	return scriptHead + b.String()
}
