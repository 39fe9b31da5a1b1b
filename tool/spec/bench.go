package spec

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/load/codec"
	"github.com/hone-go/hone/tool/record"
	"github.com/hone-go/hone/tool/trial"
)

// Bench describes what is measured, and how.
type Bench struct {
	Scenario    string // a file name
	Target      string // empty: the command prints what is measured
	cmd, build  string
	env         []string
	ready       trial.Ready
	readyWithin time.Duration
	stopWithin  time.Duration
	samples     int
	others      Others
	programs    programs
	Load        Load
}

// Define adds the flags, which are also the keys of a scenario file.
func (f *Bench) Define(cmd *cobra.Command) {
	cmd.Flags().SortFlags = false
	f.readyWithin, f.stopWithin, f.samples = trial.DefaultReady, trial.DefaultStop, trial.ServerSamples
	new(settings).define(cmd, slices.Concat([]setting{
		{name: "scenario", short: "f", value: &f.Scenario, usage: "read these flags from `FILE` (TOML or JSON)"},
		{name: "cmd", value: &f.cmd, usage: "shell `COMMAND` that runs the server"},
		{name: "target", value: &f.Target, usage: "what to load, as in hone load `TARGET` (none: the command ends, and prints Go benchmarks)"},
		{name: "build", value: &f.build, usage: "shell `COMMAND` that builds the server, run once"},
	}, f.environment(), []setting{
		{name: "ready-within", value: &f.readyWithin, usage: "time limit for the server to be ready"},
		{name: "stop-within", value: &f.stopWithin, usage: "time limit for the server to stop"},
		{name: "samples", short: "n", value: &f.samples, usage: "valid samples, or pairs of samples, to take (of Go benchmarks 16); 24 can show that two revisions are the same"},
	}, f.programs.settings()))
	f.others.Define(cmd, true)
	f.Load.Define(cmd)
}

// environment returns the settings of the server's start.
func (f *Bench) environment() []setting {
	return []setting{
		{name: "env", value: &f.env, usage: "environment variable of the server, as in GOGC=200; repeat for more", secrecy: variable},
		{name: "ready", value: readiness(&f.ready), usage: "how to tell that the server is ready: tcp, tcp:HOST:PORT, http://…, or line:EXPRESSION (the target accepts connections)"},
	}
}

// Plan returns the trial's plan, but not which revision is measured.
func (f *Bench) Plan(cmd *cobra.Command) (plan trial.Plan, err error) {
	if f.Scenario != "" {
		if err := ReadFile(cmd, f.Scenario); err != nil {
			return plan, err
		}
	}
	plan = trial.Plan{Samples: f.samples, MaxOthers: float64(f.others.Most), Seed: uint64(time.Now().UnixNano())}
	switch {
	case f.commands() == "":
		return plan, exit.Usagef("%s: --cmd is missing: say how the server is started, as in --cmd ./server", cmd.Name())
	case f.samples < 1:
		return plan, exit.Usagef("%s: --samples %d: use 1 or more; 12 pairs show a difference of 5 %% if runs differ by 2 %%", cmd.Name(), f.samples)
	case f.readyWithin <= 0 || f.stopWithin <= 0:
		return plan, exit.Usagef("%s: use positive durations, as in 30s", cmd.Name())
	case f.Target == "":
		err = f.printing(cmd, &plan)
	default:
		if err = f.Load.Complete(cmd.Name(), f.Target); err == nil {
			plan.Load, plan.Scenario = f.Load.Plan, f.Load.Kept(f.Name(), f.Target)
		}
	}
	if err == nil {
		plan.Servers, err = f.servers(cmd.Name())
	}
	return plan, err
}

// printing completes the plan of commands that print what is measured.
func (f *Bench) printing(cmd *cobra.Command, plan *trial.Plan) error {
	for _, flag := range append(f.Load.settings.names(), "ready", "ready-within") {
		if cmd.Flags().Changed(flag) {
			return exit.Usagef("%s: --target is missing: say what to load, as in --target http://127.0.0.1:8080/; without it, the command prints Go benchmarks, and --%s has no effect", cmd.Name(), flag)
		}
	}
	if !cmd.Flags().Changed("samples") {
		plan.Samples = trial.BenchmarkSamples
	}
	plan.Scenario = record.Scenario{Name: f.Name(), Settings: map[string]string{"command": hashed(f.commands())}}
	return nil
}

// Name returns the scenario's display name: the file's name, or the load's shape, or the program's name.
func (f *Bench) Name() string {
	if f.Scenario != "" {
		base := filepath.Base(f.Scenario)
		return strings.TrimSuffix(base, filepath.Ext(base))
	}
	return f.Shape()
}

// Shape describes the load, or else the command that prints what is measured, in a few words.
func (f *Bench) Shape() string {
	if f.Target == "" {
		return programName(f.commands())
	}
	return f.Load.Shape()
}

// commands returns what is measured, for a scenario without a target.
func (f *Bench) commands() string {
	all := f.cmd
	for _, p := range f.programs.rows {
		all += "\n" + p.cmd
	}
	return all
}

// servers returns the programs to measure, A, B and so on. Rows of a file have what the file says for all, but their
// own target, build and readiness check first.
func (f *Bench) servers(command string) (all []trial.Server, err error) {
	own := program{cmd: f.cmd, build: f.build, env: f.env, ready: f.ready}
	rows := slices.Clone(f.programs.rows)
	switch against := f.programs.against; {
	case len(rows) > 0 && f.cmd+against.cmd != "":
		return nil, exit.Usagef("%s: each [[program]] has a cmd; leave out cmd and against-cmd", command)
	case len(rows) == 1, len(rows) > trial.MostServers:
		return nil, exit.Usagef("%s: %d of [[program]]; write 2 to %d", command, len(rows), trial.MostServers)
	case len(rows) == 0 && against.cmd == "":
		return []trial.Server{f.server(own)}, nil
	case len(rows) == 0:
		rows = []program{against, own}
	default:
		for i := range rows {
			p := &rows[i]
			p.build, p.env, p.ready = cmp.Or(p.build, own.build), slices.Concat(own.env, p.env), cmp.Or(p.ready, own.ready)
		}
	}
	named := map[string]int{}
	for _, p := range rows {
		one := f.server(p)
		one.Name = cmp.Or(p.name, programName(p.cmd))
		if p.target != "" {
			if one.Target, err = f.targetOf(command, p.target); err != nil {
				return nil, err
			}
		}
		named[one.Name]++
		all = append(all, one)
	}
	for i := range all {
		if named[all[i].Name] > 1 {
			all[i].Name += fmt.Sprintf(" (%c)", 'A'+i)
		}
	}
	return all, nil
}

func (f *Bench) server(p program) trial.Server {
	return trial.Server{Build: p.build, Command: p.cmd, Env: p.env, Ready: p.ready, ReadyWithin: f.readyWithin, StopWithin: f.stopWithin}
}

// targetOf returns where one of several programs listens.
func (f *Bench) targetOf(command, text string) (codec.Target, error) {
	scheme := func(target string) string {
		name, _, _ := strings.Cut(target, "://")
		return kindOf(name).String()
	}
	switch {
	case f.Target == "":
		return nil, exit.Usagef("%s: a program's target needs --target, which says what the load is", command)
	case scheme(text) != scheme(f.Target):
		return nil, exit.Usagef("%s: target %s: the protocol is not that of --target %s; compare programs that do the same", command, Public(text), Public(f.Target))
	}
	return f.Load.target.parse(command, text, &f.Load.settings)
}
