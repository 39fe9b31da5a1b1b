package spec

import (
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/trial"
)

// Subject describes what is measured, and how.
type Subject struct {
	Scenario    string // a file name
	Target      string
	cmd, build  string
	env         []string
	ready       trial.Ready
	readyWithin time.Duration
	stopWithin  time.Duration
	samples     int
	others      Others
	Load        Load
}

// Define adds the flags, which are also the keys of a scenario file.
func (f *Subject) Define(cmd *cobra.Command) {
	cmd.Flags().SortFlags = false
	f.readyWithin, f.stopWithin, f.samples = trial.UsualReady, trial.UsualStop, trial.ServerSamples
	new(settings).define(cmd, slices.Concat([]setting{
		{name: "scenario", short: "f", value: &f.Scenario, usage: "read these flags from `FILE` (TOML or JSON)"},
		{name: "cmd", value: &f.cmd, usage: "shell `COMMAND` that runs the server"},
		{name: "target", value: &f.Target, usage: "what to load, as in hone load `TARGET`"},
		{name: "build", value: &f.build, usage: "shell `COMMAND` that builds the server, run once"},
	}, f.environment(), []setting{
		{name: "ready-within", value: &f.readyWithin, usage: "time limit for the server to be ready"},
		{name: "stop-within", value: &f.stopWithin, usage: "time limit for the server to stop"},
		{name: "samples", short: "n", value: &f.samples, usage: "valid samples, or pairs of samples, to take; 24 can show that two revisions are the same"},
	}))
	f.others.Define(cmd, true)
	f.Load.Define(cmd)
}

// environment returns the settings of the server's start.
func (f *Subject) environment() []setting {
	return []setting{
		{name: "env", value: &f.env, usage: "environment variable of the server, as in GOGC=200; repeat for more", secrecy: variable},
		{name: "ready", value: &value{kind: "SIGN", set: func(text string) (err error) {
			f.ready, err = trial.ParseReady(text)
			return err
		}}, usage: "how to tell that the server is ready: tcp, tcp:HOST:PORT, http://…, or line:EXPRESSION (the target accepts connections)"},
	}
}

// Plan returns the trial's plan and the server, but not which revision is measured.
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
		return plan, server, exit.Usagef("%s: --samples %d: use 1 or more; 12 pairs show a difference of 5 %% if runs differ by 2 %%", cmd.Name(), f.samples)
	case f.readyWithin <= 0 || f.stopWithin <= 0:
		return plan, server, exit.Usagef("%s: use positive durations, as in 30s", cmd.Name())
	}
	if err := f.Load.Complete(cmd.Name(), f.Target); err != nil {
		return plan, server, err
	}
	plan = trial.Plan{Load: f.Load.Plan, Design: trial.Design{Samples: f.samples, MostOthers: float64(f.others.Most), Seed: uint64(time.Now().UnixNano()), Scenario: f.Load.Kept(f.Name(), f.Target)}}
	server = trial.Server{Build: f.build, Command: f.cmd, Env: f.env, Ready: f.ready, ReadyWithin: f.readyWithin, StopWithin: f.stopWithin}
	return plan, server, nil
}

// Name returns the scenario's display name: the file's name, or the load's shape.
func (f *Subject) Name() string {
	if f.Scenario != "" {
		base := filepath.Base(f.Scenario)
		return strings.TrimSuffix(base, filepath.Ext(base))
	}
	return f.Load.Shape()
}
