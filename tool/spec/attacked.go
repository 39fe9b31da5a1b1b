package spec

import (
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/trial"
)

// Attacked is the target of attacks, with the good request of its bystanders, and how it is started
// if it is owned.
type Attacked struct {
	settings settings
	target   target
	server   Bench
}

// Define adds the flags.
func (f *Attacked) Define(cmd *cobra.Command) {
	f.settings.define(cmd, f.all())
}

func (f *Attacked) all() []setting {
	return slices.Concat([]setting{{name: "cmd", value: &f.server.cmd, usage: "start the server with this shell `COMMAND`, and own it", secrecy: private}},
		f.server.environment(), f.target.settings(), []setting{
			{name: "hello", value: f.target.files.into(&f.target.hello), secrecy: content, kinds: framed, instead: "use tcp:// or unix: for messages",
				usage: "what begins every connection that then asks, before the first request: of hone's frames a Conn with this content; 16 # in a row become letters of the connection's own"},
		})
}

// Plan returns a load with the target and its request, and the server of --cmd, if it was given.
func (f *Attacked) Plan(cmd *cobra.Command, target string) (plan load.Plan, server trial.Server, err error) {
	if plan.Target, err = f.target.parse(cmd.Name(), target, &f.settings); err != nil {
		return plan, server, err
	}
	f.target.fill(&plan)
	if !plan.Sizes.None() {
		return plan, server, exit.Usagef("%s: --size: attacks send one size; use a number of bytes", cmd.Name())
	}
	if f.server.cmd == "" && (len(f.server.env) > 0 || cmd.Flags().Changed("ready")) {
		return plan, server, exit.Usagef("%s: --env and --ready need --cmd, which starts the server", cmd.Name())
	}
	const killed = 30 * time.Second // a server that stops slowly is a finding, made before
	return plan, trial.Server{Command: f.server.cmd, Env: f.server.env, Ready: f.server.ready, StopWithin: killed}, nil
}

// GivenFlag is a flag of a command line.
type GivenFlag struct{ Name, Value string }

// Given returns the flags of a command that were set, with dashes, without those named. Values that
// may be secret are replaced: results are shared.
func (f *Attacked) Given(cmd *cobra.Command, without ...string) (given []GivenFlag) {
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if slices.Contains(without, flag.Name) {
			return
		}
		hides := public // unless it is a setting of the target
		for _, one := range f.settings.list {
			if one.name == flag.Name {
				hides = one.secrecy
			}
		}
		for _, value := range textsOf(flag) {
			given = append(given, GivenFlag{"--" + flag.Name, hides.shown(value)})
		}
	})
	return given
}
