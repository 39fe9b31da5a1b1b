package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/command"
	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/machine"
	"github.com/hone-go/hone/tool/session"
	"github.com/hone-go/hone/tool/view"
)

// doctorFlags holds the parsed flags of hone doctor.
type doctorFlags struct {
	quick, strict, script bool
	out                   session.Output
	noise                 noiseFlags
}

func newDoctor() *cobra.Command {
	f := new(doctorFlags)
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check this machine for sources of noise, and say how to fix them",
		Long: `Check this machine for sources of noise, and say how to fix them.

It checks the CPU, the clock, memory and the system's limits on connections, and
watches other processes for a second. It changes nothing: each finding comes with the
command that fixes it until the next boot.

GOOD: nothing was found. FAIR: the findings may change figures. BAD: figures would be
wrong. Checks that cannot be made here are reported as unknown.

With --noise it builds the same server twice, measures both builds alternately, which
takes some minutes, and stores the figures as a session. Once there are four sessions of a
scenario, hone bench and hone compare know how much builds of the same source differ
on this machine, and widen every interval accordingly. Measure eight, on several
days. hone run list shows them (by noise), hone run rm removes them.

Exit codes: 0 when the checks ran, 4 with --strict when the machine is BAD, or when
noise could not be measured.`,
		Example: `  hone doctor
  hone doctor --strict && hone load 127.0.0.1:7000 -c 100
  hone doctor --fix-script -o fix.sh
  hone doctor --quick --json
  hone doctor --noise
  hone doctor --noise -f hello.toml --ui 127.0.0.1:8081`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.noise.check(); err != nil {
				return err
			}
			if f.noise.wanted {
				return f.noise.run(cmd, &f.out)
			}
			return f.run(cmd)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVar(&f.quick, "quick", false, "do not watch other processes for a second: checks that need it are unknown")
	flags.BoolVar(&f.strict, "strict", false, "exit code 4 when the machine is BAD")
	flags.BoolVar(&f.script, "fix-script", false, "print only the commands that fix it, as a shell script")
	f.noise.define(cmd)
	f.out.Define(cmd)
	return cmd
}

// run makes the checks, writes the findings and returns the exit code.
func (f *doctorFlags) run(cmd *cobra.Command) error {
	if f.out.JSON && f.script {
		return exit.Usagef("doctor: choose one of --json and --fix-script")
	}
	d := machine.Diagnose(f.look(cmd.ErrOrStderr()), machine.Read())
	text := d.Text
	if f.script {
		text = d.Script
	}
	if err := f.out.Print(cmd, d, text); err != nil {
		return err
	}
	return f.verdict(d)
}

// verdict returns the exit code.
func (f *doctorFlags) verdict(d *machine.Diagnosis) error {
	if !f.strict || d.Valid {
		return nil
	}
	said := f.out.File == "" && !f.out.JSON && !f.script // by the report's first line
	return exit.Verdict(exit.Invalid, said, "doctor: this machine is not fit for measuring: %s", strings.Join(d.InvalidReasons, "; "))
}

// look makes the checks and, on a terminal, says why they take a second.
func (f *doctorFlags) look(stderr io.Writer) []machine.Check {
	if f.quick {
		return machine.QuickChecks()
	}
	if view.IsTerminal(stderr) {
		fmt.Fprint(stderr, "watching other processes for a second")
		defer fmt.Fprint(stderr, "\r\x1b[K")
	}
	return machine.Checks()
}
