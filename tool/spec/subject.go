package spec

import (
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/trial"
)

// Subject say what is measured, and how.
type Subject struct {
	Scenario    string // a file
	Target      string
	cmd, build  string
	env         []string
	ready       readyFlag
	readyWithin time.Duration
	stopWithin  time.Duration
	samples     int
	others      Others
	Progress    bool
	Plain       bool
	Load        Load
}

// Define adds the flags, which are also the keys of a scenario file.
func (f *Subject) Define(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVarP(&f.Scenario, "scenario", "f", "", "the `FILE` with flags of what is measured, in TOML")
	flags.StringVar(&f.cmd, "cmd", "", "the shell's `COMMAND` that serves")
	flags.StringVar(&f.Target, "target", "", "what to load, as in hone load `TARGET`")
	flags.StringVar(&f.build, "build", "", "the shell's `COMMAND` that makes it, once")
	flags.StringArrayVar(&f.env, "env", nil, "a setting of its environment, as in GOGC=200; repeat for more")
	flags.Var(&f.ready, "ready", "how it is known to serve: tcp, tcp:HOST:PORT, http://…, or line:EXPRESSION (the target takes connections)")
	flags.DurationVar(&f.readyWithin, "ready-within", 30*time.Second, "how long that may take")
	flags.DurationVar(&f.stopWithin, "stop-within", 10*time.Second, "how long it may take to end")
	flags.IntVarP(&f.samples, "samples", "n", 12, "valid samples to take, or pairs; 24 show that two are the same")
	f.others.Define(cmd, 0.3)
	flags.BoolVar(&f.Progress, "progress", false, "report every second, also where standard error is no terminal")
	flags.BoolVar(&f.Plain, "plain", false, PlainUsage)
	f.Load.Define(cmd)
}

// readyFlag takes a sign of being ready.
type readyFlag struct{ trial.Ready }

// Set reads it.
func (f *readyFlag) Set(text string) (err error) {
	f.Ready, err = trial.ParseReady(text)
	return err
}

// Type is how help names the value.
func (f *readyFlag) Type() string { return "SIGN" }

// Plan makes the trial's, but for who is measured.
func (f *Subject) Plan(cmd *cobra.Command) (trial.Plan, trial.Server, error) {
	var plan trial.Plan
	var server trial.Server
	if f.Scenario != "" {
		if err := ReadFile(cmd, f.Scenario); err != nil {
			return plan, server, err
		}
	}
	switch {
	case f.cmd == "":
		return plan, server, exit.Usagef("%s: --cmd is missing: say how the server is started, as in --cmd ./server", cmd.Name())
	case f.Target == "":
		return plan, server, exit.Usagef("%s: --target is missing: say what to load, as in --target http://127.0.0.1:8080/", cmd.Name())
	case f.samples < 1:
		return plan, server, exit.Usagef("%s: --samples %d: use 1 or more; 12 pairs show a difference of 5 %% where runs differ by 2 %%", cmd.Name(), f.samples)
	case f.readyWithin <= 0 || f.stopWithin <= 0:
		return plan, server, exit.Usagef("%s: use positive durations, as in 30s", cmd.Name())
	}
	if err := f.Load.Complete(cmd, f.Target); err != nil {
		return plan, server, err
	}
	plan = trial.Plan{Load: f.Load.Plan, Samples: f.samples, MostOthers: float64(f.others.Most), Seed: uint64(time.Now().UnixNano()), Scenario: Kept(cmd, f.Name(), f.Target)}
	server = trial.Server{Build: f.build, Command: f.cmd, Env: f.env, Ready: f.ready.Ready, ReadyWithin: f.readyWithin, StopWithin: f.stopWithin}
	return plan, server, nil
}

// Name is the scenario's, for people: the file's, or the load's shape.
func (f *Subject) Name() string {
	if f.Scenario != "" {
		base := filepath.Base(f.Scenario)
		return strings.TrimSuffix(base, filepath.Ext(base))
	}
	return f.Load.Shape()
}

// PlainUsage is the help of --plain.
const PlainUsage = "on a terminal, report in lines that stay instead of a view that changes"

// A flag that is no longer taken, and what is said of it.
const (
	PprofToken   = "pprof-token"
	TokenInClear = PprofToken + " is no longer taken, because others can read arguments and scenarios; write the token to a file, and give that: " + PprofToken + "-file"
)
