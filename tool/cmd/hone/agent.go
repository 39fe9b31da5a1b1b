package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/internal/sys"
	"github.com/hone-go/hone/tool/command"
	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/load/fleet"
	"github.com/hone-go/hone/tool/page"
	"github.com/hone-go/hone/tool/session"
	"github.com/hone-go/hone/tool/spec"
	"github.com/hone-go/hone/tool/trial"
)

// natsFlags configure the connection to a NATS server.
type natsFlags struct {
	tokenFile                string
	tokenName                string
	credentials              string
	authority, cert, private string
}

func (f *natsFlags) define(cmd *cobra.Command, token string) {
	f.tokenName = token
	flags := cmd.Flags()
	flags.StringVar(&f.tokenFile, token, "", "`FILE` with the secret that hone load and its agents share; it encrypts their messages over NATS")
	flags.StringVar(&f.credentials, "nats-credentials", "", "`FILE` of NATS credentials")
	flags.StringVar(&f.authority, "nats-cacert", "", "trust the certificate authorities in this PEM `FILE` for NATS instead of the system's")
	flags.StringVar(&f.cert, "nats-cert", "", "client certificate for NATS, a PEM `FILE`")
	flags.StringVar(&f.private, "nats-key", "", "key of --nats-cert, a PEM `FILE`")
}

// server returns the NATS server at a URL.
func (f *natsFlags) server(command, url string) (*fleet.NATS, error) {
	if f.tokenFile == "" {
		return nil, exit.Usagef("%s: --%s is missing: NATS agents accept only loads with their token; %s", command, f.tokenName, session.NewToken("FILE"))
	}
	if (f.cert == "") != (f.private == "") {
		return nil, exit.Usagef("%s: --nats-cert and --nats-key belong together; give both, or neither", command)
	}
	token, err := session.TokenOf(command, f.tokenName, f.tokenFile)
	if err != nil {
		return nil, err
	}
	return &fleet.NATS{URL: url, Token: token, Credentials: f.credentials, CA: f.authority, Cert: f.cert, Key: f.private}, nil
}

// agentsFlags choose the agents that send a load.
type agentsFlags struct {
	agents string
	count  int
	wait   time.Duration
	natsFlags
}

func (f *agentsFlags) define(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.agents, "agents", "", "send the load from the hone agents at this NATS server, a `URL` as nats://HOST:PORT")
	flags.IntVar(&f.count, "agents-count", 0, "number of agents to wait for (all that connect within --agents-wait)")
	flags.DurationVar(&f.wait, "agents-wait", 10*time.Second, "how long to wait for agents")
	f.natsFlags.define(cmd, "agents-token-file")
}

// check refuses flags that have no effect, or do not work with agents, and a plan with too few
// connections for the agents, if their number is known before they join.
func (f *agentsFlags) check(cmd *cobra.Command, plan load.Plan) error {
	if f.agents == "" {
		for _, name := range []string{"agents-count", "agents-wait", "agents-token-file", "nats-credentials", "nats-cacert", "nats-cert", "nats-key"} {
			if cmd.Flags().Changed(name) {
				return exit.Usagef("load: --%s works only with agents; leave it out, or name their NATS server, as in --agents nats://127.0.0.1:4222", name)
			}
		}
		return nil
	}
	switch {
	case cmd.Flags().Changed("max-others"):
		return exit.Usagef("load: --max-others covers only this machine; leave it out with --agents")
	case f.count < 0:
		return exit.Usagef("load: --agents-count %d: use 1 or more", f.count)
	case f.wait <= 0:
		return exit.Usagef("load: --agents-wait %v: use a positive duration, as in 10s", f.wait)
	}
	plan.Partition.Of = f.count
	_, _, err := plan.Measures()
	return loadFailure(err)
}

// send runs the load in this process, or on agents.
func (f *loadFlags) send(cmd *cobra.Command, target string, live *session.Live) (*load.Result, error) {
	if f.agents.agents == "" {
		return load.Run(cmd.Context(), f.Plan)
	}
	from, err := f.agents.server("load", f.agents.agents)
	if err != nil {
		return nil, err
	}
	from.Count, from.Wait = f.agents.count, f.agents.wait
	job, err := f.Carry(target)
	if err != nil {
		return nil, err
	}
	sent := fleet.Fleet{Plan: f.Plan, Job: job, Version: buildText(), From: from, Told: func(all []fleet.Now) { live.On(func(p *page.Page) { p.Agents(onPage(all)) }) }}
	return sent.Run(cmd.Context())
}

func onPage(all []fleet.Now) []page.Agent {
	agents := make([]page.Agent, len(all))
	for i, a := range all {
		name := a.Name
		if a.Machine != "" && a.Machine != a.Name {
			name += " on " + a.Machine
		}
		agents[i] = page.Agent{Name: name, Rate: a.Rate, P50: a.P50, P99: a.P99, Doubtful: a.Fault != ""}
	}
	return agents
}

// buildText identifies the build, which must be the same for agents and coordinator.
func buildText() string {
	v := command.BuildOf(release)
	if v.Commit != nil {
		return v.Version + " " + *v.Commit
	}
	return v.Version
}

// agentFlags are the flags of agent.
type agentFlags struct {
	natsFlags
	name string
	once bool
}

func newAgent() *cobra.Command {
	f := &agentFlags{}
	cmd := &cobra.Command{
		Use:   "agent NATS-URL",
		Short: "Send a part of a load, for hone load --agents on another machine",
		Long: `Send a part of a load, for hone load --agents on another machine.

An agent waits at your NATS server for a hone load with the same token, sends its
part of the load, and waits for the next. Anyone who has the token can make it load
any address that it can reach, and nothing else: it runs no commands, and reads no
files of its machine. Run the same build of hone as that of hone load. See docs/fleet.md.`,
		Example: `  openssl rand -hex 16 > token                        once, for all machines
  hone agent nats://10.0.0.1:4222 --token-file token
  hone agent tls://nats:4222 --token-file token --nats-credentials agent.creds --once`,
		Args: arguments(1, 1, "agent: name one NATS server, or those of a cluster separated with commas, as in: hone agent nats://10.0.0.1:4222 --token-file token"),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	cmd.Flags().SortFlags = false
	f.define(cmd, "token-file")
	flags := cmd.Flags()
	flags.StringVar(&f.name, "name", "", "name of the agent in results (the machine's name)")
	flags.BoolVar(&f.once, "once", false, "exit after one load")
	return cmd
}

// run waits for loads and sends its part of them.
func (f *agentFlags) run(cmd *cobra.Command, args []string) error {
	n, err := f.server("agent", args[0])
	if err != nil {
		return err
	}
	agent := &fleet.Agent{
		Name: f.name, Version: buildText(),
		Prepare: func(text []byte) (load.Plan, error) {
			plan, err := spec.FromCarried(text)
			if err == nil && trial.Topology(plan.Target) == "unix" {
				err = errors.New("agents do not connect to unix sockets for others; run hone load on that machine")
			}
			return plan, err
		},
		Said: func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), "hone: agent:", line) },
	}
	sys.OutliveReaders()
	if err = agent.NATS(cmd.Context(), n, f.once); errors.Is(err, context.Canceled) {
		return &exit.Error{Code: exit.Interrupted}
	}
	return loadFailure(err)
}
