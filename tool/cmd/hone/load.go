package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/wire"
)

// loadFlags are load's, as they were given.
type loadFlags struct {
	plan              load.Plan
	arrivals, dialect *choice
	goals             goalFlag
	size              sizeFlag
	request           contentFlag
	stats, file       string
	json, progress    bool
}

func newLoad() *cobra.Command {
	f := &loadFlags{size: 32}
	cmd := &cobra.Command{
		Use:   "load TARGET",
		Short: "Drive a server and measure it honestly",
		Long: `Drive a server and measure it honestly. TARGET is HOST:PORT, tcp://HOST:PORT or
unix:PATH. Every answer is verified.

Without --rate every connection keeps --depth requests outstanding (a closed
loop): that finds the most a server can do. With --rate every request has its
moment, and its time counts from then (an open loop): that finds how long people
wait. A result is VALID when its figures are the server's, not the generator's;
figures of INVALID ones are not to be believed.

A goal is a figure, a comparison and a value: p99<5ms, service.p50<=200us,
rate>=10000, errors==0, errors<0.1%.`,
		Example: `  hone load 127.0.0.1:7000 -c 100 -d 5s
  hone load 127.0.0.1:7000 -c 100 --depth 64
  hone load 127.0.0.1:7000 -c 50 --rate 20000 --arrivals poisson --expect 'p99<5ms'
  hone load unix:/run/hone.sock --request 'sleep 5ms' --server-stats 127.0.0.1:7070
  hone load 127.0.0.1:7000 --json -o result.json`,
		Args: oneTarget,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("warmup") && f.plan.Warmup == 0 {
				f.plan.Warmup = -1 // none, where the plan's zero is the usual one
			}
			return f.run(cmd.Context(), args[0], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f.define(cmd)
	return cmd
}

// define adds the flags.
func (f *loadFlags) define(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.IntVarP(&f.plan.Conns, "conns", "c", 1, "connections")
	flags.IntVar(&f.plan.Depth, "depth", 0, "most requests outstanding on a connection (1, with --rate 256)")
	flags.Float64Var(&f.plan.Rate, "rate", 0, "requests a second over all connections (as many as are answered)")
	f.arrivals = addChoice(cmd, "arrivals", "constant", "how --rate is spread over time", "constant", "poisson")
	flags.DurationVarP(&f.plan.For, "for", "d", 10*time.Second, "how long to measure")
	flags.DurationVar(&f.plan.Warmup, "warmup", 0, "how long to load before that (a tenth of --for, at most 5s)")
	flags.Float64Var(&f.plan.Ramp.PerSecond, "ramp", 0, "connections to open in a second (no limit)")
	flags.DurationVar(&f.plan.Timeout, "timeout", 5*time.Second, "longest wait for a connection or an answer")
	flags.Var(&f.size, "size", "bytes of content in a request")
	flags.Var(&f.request, "request", "the content itself, instead of --size: TEXT, hex:BYTES or @FILE")
	f.dialect = addChoice(cmd, "dialect", "standard", "what is spoken on the wire", "standard", "demo")
	flags.Var(&f.goals, "expect", "a goal; repeat for more; exit code 3 when one is missed")
	flags.BoolVar(&f.plan.AllowErrors, "allow-errors", false, "keep a result valid in which requests failed")
	flags.Uint64Var(&f.plan.Seed, "seed", 0, "chooses content and Poisson arrivals, the same for the same seed")
	flags.StringVar(&f.stats, "server-stats", "", "the server's admin side, a `URL` or HOST:PORT: adds what the server used")
	flags.BoolVar(&f.progress, "progress", false, "report every second, also where standard error is no terminal")
	flags.BoolVar(&f.json, "json", false, "print one JSON object")
	flags.StringVarP(&f.file, "output", "o", "", "write the result to `FILE` instead of standard output")
}

func oneTarget(_ *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return wrongUse("load: name a target, as in: hone load 127.0.0.1:7000")
	case 1:
		return nil
	}
	return wrongUse("load: one target at a time, not also %q; flags begin with --, see hone load --help", args[1])
}

// run loads the target and says what came of it.
func (f *loadFlags) run(ctx context.Context, target string, stdout, stderr io.Writer) error {
	stats, err := f.complete(target)
	if err != nil {
		return err
	}
	out, err := openResult(f.file, stdout)
	if err != nil {
		return err
	}
	defer out.Close()
	if stats != nil {
		defer stats.close()
		if err := stats.reachable(ctx); err != nil {
			return failed("load: --server-stats %s: %w", f.stats, err)
		}
		f.plan.WindowOpens, f.plan.WindowCloses = stats.opens, stats.closes
	}
	watcher := newProgress(stderr, f.progress)
	f.plan.Progress = watcher.show
	result, err := load.Run(ctx, f.plan)
	watcher.end()
	if result != nil {
		if stats != nil {
			result.Server = stats.used()
		}
		outcomes := load.Check(result, f.goals.goals)
		if err := f.write(out, target, result, outcomes); err != nil {
			return failed("load: %w", err)
		}
		if err == nil {
			return f.verdict(result, outcomes)
		}
	}
	return loadFailure(err)
}

// complete finishes the plan.
func (f *loadFlags) complete(target string) (*serverStats, error) {
	var dialect wire.Dialect
	if err := dialect.UnmarshalText([]byte(f.dialect.value)); err != nil {
		return nil, wrongUse("load: --dialect: %w", err)
	}
	if err := f.plan.Arrivals.UnmarshalText([]byte(f.arrivals.value)); err != nil {
		return nil, wrongUse("load: --arrivals: %w", err)
	}
	if !strings.Contains(target, "://") && !strings.HasPrefix(target, "unix:") {
		target = "tcp://" + target
	}
	frames, err := load.ParseTarget(target, dialect)
	if err != nil {
		return nil, &failure{exitUsage, err}
	}
	f.plan.Target = frames
	if f.plan.Content = f.request.content; f.plan.Content == nil {
		f.plan.Size = int(f.size)
		if f.size == 0 {
			f.plan.Content = []byte{}
		}
	}
	if err := f.check(); err != nil {
		return nil, err
	}
	if f.stats == "" {
		return nil, nil
	}
	return newServerStats(f.stats)
}

// check refuses, by the flag's name, what the plan has its own zero for.
func (f *loadFlags) check() error {
	switch {
	case f.plan.Conns < 1:
		return wrongUse("load: --conns %d: use 1 or more", f.plan.Conns)
	case f.plan.For <= 0:
		return wrongUse("load: --for %v: use a positive duration, as in 10s", f.plan.For)
	case f.plan.Timeout <= 0:
		return wrongUse("load: --timeout %v: use a positive duration, as in 5s", f.plan.Timeout)
	}
	return nil
}

// loadFailure is the failure of a run that could not go on.
func loadFailure(err error) error {
	if end := new(load.Error); errors.As(err, &end) && end.Kind == load.BadPlan {
		return &failure{exitUsage, err}
	}
	return failedIf(err)
}

// verdict is the exit code of a run that came to its end.
func (f *loadFlags) verdict(r *load.Result, outcomes []load.Outcome) error {
	said := !f.json && f.file == "" // by the result's first line
	switch {
	case r.Interrupted && said:
		return &failure{code: exitInterrupted}
	case !r.Valid && said:
		return &failure{code: exitInvalid}
	case r.Interrupted:
		return &failure{exitInterrupted, errors.New("load: interrupted; a partial result meets no goal, so let it run to the end")}
	case !r.Valid:
		return &failure{exitInvalid, fmt.Errorf("load: the run is not valid: %s", strings.Join(r.InvalidReasons, "; "))}
	}
	for _, o := range outcomes {
		if !o.Met {
			return &failure{exitMissed, fmt.Errorf("load: goal %v; see where its time goes with pprof on the server's --admin address", o)}
		}
	}
	return nil
}

const goalType = "GOAL"

// goalFlag takes goals.
type goalFlag struct{ goals []load.Goal }

// Set takes one goal.
func (f *goalFlag) Set(text string) error {
	g, err := load.ParseGoal(text)
	if err != nil {
		return err
	}
	f.goals = append(f.goals, g)
	return nil
}

// String returns the goals given.
func (f *goalFlag) String() string {
	var texts []string
	for _, g := range f.goals {
		texts = append(texts, g.String())
	}
	return strings.Join(texts, ",")
}

// Type is how help names the value.
func (f *goalFlag) Type() string { return goalType }

// sizeFlag takes a number of bytes.
type sizeFlag int

// Set takes the size.
func (f *sizeFlag) Set(text string) error {
	n, err := parseSize(text)
	*f = sizeFlag(n)
	return err
}

// String returns the size.
func (f *sizeFlag) String() string { return formatSize(int(*f)) }

// Type is how help names the value.
func (f *sizeFlag) Type() string { return "SIZE" }

// contentFlag takes the content of a request.
type contentFlag struct {
	text    string
	content []byte
}

// Set takes TEXT, hex:BYTES or @FILE.
func (f *contentFlag) Set(text string) (err error) {
	f.text = text
	if name, ok := strings.CutPrefix(text, "@"); ok {
		if f.content, err = os.ReadFile(name); err != nil {
			return fmt.Errorf("cannot be read: %w; name a file after @", err)
		}
		return nil
	}
	f.content = []byte(text)
	if digits, ok := strings.CutPrefix(text, "hex:"); ok {
		if f.content, err = hex.DecodeString(digits); err != nil {
			return errors.New("not hexadecimal; write two digits for each byte, as in hex:0a0d")
		}
	}
	return nil
}

// String returns the flag as given.
func (f *contentFlag) String() string { return f.text }

// Type is how help names the value.
func (f *contentFlag) Type() string { return "CONTENT" }
