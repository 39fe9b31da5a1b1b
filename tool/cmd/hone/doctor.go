package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/command"
	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/machine"
	"github.com/hone-go/hone/tool/session"
)

// doctorFlags holds the parsed flags of hone doctor.
type doctorFlags struct {
	quick, strict bool
	out           session.Output
}

func newDoctor() *cobra.Command {
	f := new(doctorFlags)
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check this machine for sources of noise, and say how to fix them",
		Long: `Check this machine for sources of noise, and say how to fix them. It changes nothing:
each finding comes with the command that fixes it until the next boot. GOOD: nothing was
found. FAIR: the findings may change figures. BAD: figures would be wrong.

How much builds of the same source differ here, hone bench --against-self measures.`,
		Example: `  hone doctor
  hone doctor --strict && hone bench -f hello.toml`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVar(&f.quick, "quick", false, "do not watch other processes for a second: checks that need it are unknown")
	flags.BoolVar(&f.strict, "strict", false, "exit code 4 when the machine is BAD")
	f.out.Define(cmd)
	return cmd
}

// run makes the checks, writes the findings and returns the exit code.
func (f *doctorFlags) run(cmd *cobra.Command) error {
	checks := machine.Checks
	if f.quick {
		checks = machine.QuickChecks
	}
	d := machine.Diagnose(checks(), machine.Read())
	if err := f.out.Print(cmd, d, d.Text); err != nil {
		return err
	}
	return f.verdict(d)
}

// verdict returns the exit code.
func (f *doctorFlags) verdict(d *machine.Diagnosis) error {
	if !f.strict || d.Valid {
		return nil
	}
	return exit.Verdict(exit.Invalid, f.out.Said(), "doctor: this machine is not fit for measuring: %s", strings.Join(d.InvalidReasons, "; "))
}
