package spec

import (
	"slices"
	"strings"
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
	targetFlags targetFlags
	server      Subject
}

// Define adds the flags.
func (f *Attacked) Define(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.server.cmd, "cmd", "", "start the server with this shell `COMMAND`, and own it")
	flags.StringArrayVar(&f.server.env, "env", nil, "environment variable of the server, as in GOGC=200; repeat for more")
	flags.Var(f.server.readyFlag(), "ready", "how to tell that the server is ready: tcp, tcp:HOST:PORT, http://…, or line:EXPRESSION (the target accepts connections)")
	f.targetFlags.define(cmd, new(files))
	flags.Var(f.targetFlags.files.into(&f.targetFlags.hello), "hello", "what begins every connection that then asks, before the first request: of hone's frames a Conn with this content; 16 # in a row become letters of the connection's own")
}

// Plan returns a load with the target and its request, and the server of --cmd, if it was given.
func (f *Attacked) Plan(cmd *cobra.Command, target string) (plan load.Plan, server trial.Server, err error) {
	if plan.Target, err = f.targetFlags.target(cmd, target); err != nil {
		return plan, server, err
	}
	f.targetFlags.fill(&plan)
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

// Given returns the flags that were set, with dashes, without those named. Values that may be
// secret are replaced: results are shared.
func Given(cmd *cobra.Command, without ...string) (given []GivenFlag) {
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if slices.Contains(without, flag.Name) {
			return
		}
		for _, value := range valuesOf(flag) {
			given = append(given, GivenFlag{"--" + flag.Name, withoutSecret(flag.Name, value)})
		}
	})
	return given
}

// withoutSecret returns a flag's value with … in place of what may be secret. The name of a file stays.
func withoutSecret(flag, value string) string {
	switch flag {
	case "cmd", "header":
		return "…"
	case "env":
		name, _, _ := strings.Cut(value, "=")
		return name + "=…"
	case "request", "expect-content", "body", "hello":
		if !strings.HasPrefix(value, "@") {
			return "…"
		}
	case "ready", "pprof":
		return Public(value)
	}
	return value
}
