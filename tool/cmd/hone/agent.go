package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/load/fleet"
	"github.com/hone-go/hone/tool/page"
	"github.com/hone-go/hone/tool/session"
	"github.com/hone-go/hone/tool/spec"
)

// natsFlags say how a NATS server is used.
type natsFlags struct {
	tokenFile                string
	tokenName                string
	credentials              string
	authority, cert, private string
}

func (f *natsFlags) define(cmd *cobra.Command, token string) {
	f.tokenName = token
	flags := cmd.Flags()
	flags.StringVar(&f.tokenFile, token, "", "`FILE` with the secret that hone load and its agents share: what they say over NATS is encrypted with it")
	flags.StringVar(&f.credentials, "nats-credentials", "", "`FILE` of NATS credentials")
	flags.StringVar(&f.authority, "nats-cacert", "", "trust the authorities in this PEM `FILE` for NATS, not the system's")
	flags.StringVar(&f.cert, "nats-cert", "", "our certificate for NATS, a PEM `FILE`")
	flags.StringVar(&f.private, "nats-key", "", "its key, a PEM `FILE`")
}

// server is the NATS server at a URL.
func (f *natsFlags) server(command, url string) (*fleet.NATS, error) {
	if f.tokenFile == "" {
		return nil, exit.Usagef("%s: --%s is missing: over NATS only those may steer agents who have its token; %s", command, f.tokenName, session.NewToken("FILE"))
	}
	if (f.cert == "") != (f.private == "") {
		return nil, exit.Usagef("%s: --nats-cert and --nats-key belong together; give both, or neither", command)
	}
	token, err := session.ReadToken(f.tokenFile)
	if err != nil {
		return nil, exit.Failedf("%s: --%s: %w; %s", command, f.tokenName, err, session.NewToken(f.tokenFile))
	}
	return &fleet.NATS{URL: url, Token: token, Credentials: f.credentials, CA: f.authority, Cert: f.cert, Key: f.private}, nil
}

// agentsFlags say who sends a load.
type agentsFlags struct {
	agents string
	count  int
	wait   time.Duration
	natsFlags
}

func (f *agentsFlags) define(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.agents, "agents", "", "have the load sent by so many processes of this machine, or by those that wait with hone agent: `N` or nats://HOST:PORT")
	flags.IntVar(&f.count, "agents-count", 0, "how many to wait for at a NATS server (all that come within --agents-wait)")
	flags.DurationVar(&f.wait, "agents-wait", 10*time.Second, "how long to wait for them")
	f.natsFlags.define(cmd, "agents-token-file")
	complete := cobra.FixedCompletions([]cobra.Completion{"2\tprocesses of this machine", "nats://127.0.0.1:4222\tmachines that wait with hone agent"}, cobra.ShellCompDirectiveNoFileComp)
	if err := cmd.RegisterFlagCompletionFunc("agents", complete); err != nil {
		panic("hone: " + err.Error()) // the flag was added above
	}
}

// check refuses flags that do nothing, or cannot be with agents.
func (f *agentsFlags) check(cmd *cobra.Command) error {
	if f.agents == "" {
		for _, name := range []string{"agents-count", "agents-wait", "agents-token-file", "nats-credentials", "nats-cacert", "nats-cert", "nats-key"} {
			if cmd.Flags().Changed(name) {
				return exit.Usagef("load: --%s is about --agents; give that, as in --agents nats://127.0.0.1:4222", name)
			}
		}
		return nil
	}
	switch {
	case cmd.Flags().Changed("most-others"):
		return exit.Usagef("load: --most-others looks at this machine alone; leave it out with --agents")
	case f.count < 0:
		return exit.Usagef("load: --agents-count %d: use 1 or more", f.count)
	case f.wait <= 0:
		return exit.Usagef("load: --agents-wait %v: use a positive duration, as in 10s", f.wait)
	}
	return nil
}

// source is where the agents are.
func (f *agentsFlags) source() (fleet.Source, error) {
	if strings.Contains(f.agents, "://") {
		n, err := f.server("load", f.agents)
		if err != nil {
			return nil, err
		}
		n.Count, n.Wait = f.count, f.wait
		return n, nil
	}
	count, err := strconv.Atoi(f.agents)
	if err != nil || count < 1 || count > fleet.MostLocal {
		return nil, exit.Usagef("load: --agents %q: use 1 to %d processes of this machine, or a NATS server, as in nats://10.0.0.1:4222", f.agents, fleet.MostLocal)
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, exit.Failedf("load: %w", err)
	}
	return &fleet.Local{Count: count, Command: func(ctx context.Context) *exec.Cmd {
		return exec.CommandContext(ctx, exe, "agent", "--pipe")
	}}, nil
}

// send runs the load here, or by agents.
func (f *loadFlags) send(cmd *cobra.Command, target string, live *session.Live) (*load.Result, error) {
	if f.agents.agents == "" {
		return load.Run(cmd.Context(), f.Plan)
	}
	from, err := f.agents.source()
	if err != nil {
		return nil, err
	}
	job, err := f.Carry(cmd, target)
	if err != nil {
		return nil, exit.Failedf("load: %w", err)
	}
	sent := fleet.Fleet{Plan: f.Plan, Job: job, Version: buildText(), From: from, Told: func(all []fleet.Now) { live.Agents(onPage(all)) }}
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

// buildText is what agents and their coordinator must have in common.
func buildText() string {
	v := buildVersion()
	if v.Commit != nil {
		return v.Version + " " + *v.Commit
	}
	return v.Version
}

// agentFlags are agent's.
type agentFlags struct {
	natsFlags
	name       string
	once, pipe bool
}

func newAgent() *cobra.Command {
	f := &agentFlags{}
	cmd := &cobra.Command{
		Use:   "agent NATS-URL",
		Short: "Send a part of the load of hone load --agents on another machine",
		Long: `Send a part of the load of hone load --agents on another machine.

An agent waits at a NATS server, which is yours, for a hone load with the same
token, sends its part, and waits for the next. Whoever has the token can have it
load any address that it can reach, and nothing else: it runs no commands, and
reads no files of its machine. What a load needs of files, such as bodies and
certificates with their keys, comes with it, encrypted with the token.

Give an agent CPUs of its own, and the same build of hone as the coordinator's.
See docs/fleet.md.`,
		Example: `  openssl rand -hex 16 > token                        once, for all machines
  hone agent nats://10.0.0.1:4222 --token-file token
  hone agent tls://nats:4222 --token-file token --nats-credentials agent.creds --once`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) > 1:
				return exit.Usagef("agent: one NATS server, not also %q; separate those of a cluster with commas", args[1])
			case len(args) == 0 && !f.pipe:
				return exit.Usagef("agent: name the NATS server, as in: hone agent nats://10.0.0.1:4222 --token-file token")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	cmd.Flags().SortFlags = false
	f.define(cmd, "token-file")
	flags := cmd.Flags()
	flags.StringVar(&f.name, "name", "", "what results call it (the machine's name)")
	flags.BoolVar(&f.once, "once", false, "end after one load")
	flags.BoolVar(&f.pipe, "pipe", false, "serve hone load --agents N, which starts it")
	if err := flags.MarkHidden("pipe"); err != nil {
		panic("hone: " + err.Error()) // the flag was added above
	}
	return cmd
}

// run sends what it is asked to.
func (f *agentFlags) run(cmd *cobra.Command, args []string) error {
	agent := &fleet.Agent{Name: f.name, Version: buildText(), Prepare: spec.FromCarried}
	if f.pipe {
		in, out := fleet.PipeFiles()
		return exit.FailedIf(agent.Pipe(cmd.Context(), in, out))
	}
	n, err := f.server("agent", args[0])
	if err != nil {
		return err
	}
	agent.Prepare = func(text []byte) (load.Plan, error) {
		plan, err := spec.FromCarried(text)
		if err == nil && spec.OverUnixSocket(plan) {
			err = errors.New("a unix socket is the agent's own, and not for others to use; load it with hone load on that machine")
		}
		return plan, err
	}
	agent.Said = func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), "hone: agent:", line) }
	if err = agent.NATS(cmd.Context(), n, f.once); errors.Is(err, context.Canceled) {
		return &exit.Error{Code: exit.Interrupted}
	}
	return fleetFailure(err)
}

// fleetFailure is a failure of the agents, or of who steers them.
func fleetFailure(err error) error {
	if end := new(exit.Error); errors.As(err, &end) {
		return err
	}
	return loadFailure(err)
}
