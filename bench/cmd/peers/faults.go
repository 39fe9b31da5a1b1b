package main

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/bench/race"
	"github.com/hone-go/hone/bench/table"
	"github.com/hone-go/hone/bench/web"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/load/codec"
	"github.com/hone-go/hone/tool/torture"
	"github.com/hone-go/hone/tool/trial"
)

// fullWait is how long the servers' own time limits are waited for.
const fullWait = 75 * time.Second

// attack attacks servers with tool/torture, each started by it and alone.
func attack(ctx context.Context, args []string, stderr io.Writer) error {
	f := flag.NewFlagSet("faults", flag.ContinueOnError)
	f.SetOutput(stderr)
	second := f.Bool("http2", false, "attack servers of HTTP/2, with the scenarios for that")
	only := f.String("only", "", "these scenarios only, with commas between")
	servers := f.String("servers", "", "these servers only, with commas between")
	file := f.String("o", "", "write the run there; required")
	seed := f.Uint64("seed", 1, "of inputs and pauses")
	var limits torture.Limits
	f.DurationVar(&limits.Wait, "wait", fullWait, "how long to wait for the servers' own time limits")
	f.IntVar(&limits.Peers, "peers", 0, "clients of an attack on HTTP/2; 0: 8, or 3")
	f.DurationVar(&limits.Within, "within", 0, "in which an attack ends that does not wait; 0: 10s")
	err := f.Parse(args)
	if err == nil && (f.NArg() > 0 || *file == "") {
		err = fmt.Errorf("faults needs -o FILE, and takes no %q", f.Args())
	}
	if err != nil {
		return usage(err)
	}
	limits.Few = limits.Peers
	words := func(text string) []string { return strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) }
	scenarios := slices.DeleteFunc(torture.Scenarios(), func(s torture.Scenario) bool { return *only != "" && !slices.Contains(words(*only), s.Name) })
	if names := words(*only); len(names) > 0 && len(names) != len(scenarios) {
		return usage(fmt.Errorf("not all of %s are scenarios; hone torture --list prints them", *only))
	}
	g := &race.Ground{Say: stopwatch(stderr)}
	module, end, err := prepare(ctx, g)
	if err != nil {
		return err
	}
	defer end()
	entries, err := fleet.Build(ctx, module, g.Dir, fleet.Choose(fleet.Torture(*second), words(*servers)), g.Say)
	if err != nil {
		return err
	}
	run := &table.Torture{Wait: limits.Wait.Seconds(), Seed: *seed}
	run.Schema, run.Valid, run.InvalidReasons, run.Machine = table.TortureSchema, true, []string{}, table.ThisMachine(ctx, module)
	for _, e := range entries {
		run.Servers = append(run.Servers, e.Server)
		plan := torture.Plan{Limits: limits, Seed: *seed, Scenarios: scenarios}
		found, err := attackOne(ctx, g, e, plan)
		switch {
		case ctx.Err() != nil:
			return &failure{exitInterrupted, fmt.Errorf("interrupted; nothing is written")}
		case err != nil:
			run.Doubt("%s: %v", e.Name, err)
			continue
		}
		for _, made := range found.Results {
			if made.Verdict != torture.NotApplicable {
				run.Outcomes = append(run.Outcomes, table.Outcome{Server: e.Name, Scenario: made.Name, Verdict: made.Verdict.String(), Words: strings.ReplaceAll(made.Words, g.Dir+"/", "")})
			}
		}
		g.Say(e.Name + ": " + found.Summary())
	}
	if limits.Wait < fullWait || limits.Peers > 0 || limits.Within > 0 || *only != "" {
		run.Doubt("not all scenarios, other clients or other times; leave -only, -peers, -wait and -within out")
	}
	text, err := table.Encode(run)
	if err == nil {
		err = os.WriteFile(*file, text, 0o644)
	}
	return err
}

// attackOne starts one server and attacks it.
func attackOne(ctx context.Context, g *race.Ground, e fleet.Entry, p torture.Plan) (*torture.Report, error) {
	addr, err := fleet.FreeAddr()
	if err != nil {
		return nil, err
	}
	line, err := e.Line(g.Dir, addr, fleet.How{Loops: 2})
	if err != nil {
		return nil, err
	}
	p.Server = trial.Server{Command: line, Dir: g.Dir}
	if p.Load, err = loadOf(e.Name, addr); err != nil {
		return nil, err
	}
	p.Scenarios = slices.DeleteFunc(slices.Clone(p.Scenarios), func(s torture.Scenario) bool {
		return e.Command == "" && s.Name == "sigterm-under-load" || // the programs of bench/servers leave SIGTERM to Go
			e.TLS && !s.HTTP2 // these are attacked with the rest over HTTP/1.1
	})
	p.Progress = func(now torture.Progress) {
		if now.Made != nil && now.Made.Verdict > torture.Survived {
			g.Say(fmt.Sprintf("%-24s %-13v %-22s %s", e.Name, now.Made.Verdict, now.Made.Name, now.Made.Words))
		}
	}
	return torture.Run(ctx, p)
}

// loadOf is what servers of a protocol are asked.
func loadOf(name, addr string) (p load.Plan, err error) {
	switch protocol, _, _ := strings.Cut(filepath.ToSlash(name), "/"); protocol {
	case "frames":
		frames := codec.Frames{Address: addr}
		if name == "frames/honed" {
			frames.Hello = race.HonedHello
		}
		p.Target = frames
	case "http":
		p.Target = codec.HTTP{URL: "http://" + addr + web.HelloPath}
	case "http2":
		p.Target = codec.HTTP{URL: "https://" + addr + web.HelloPath, TLS: &tls.Config{InsecureSkipVerify: true}} // its certificate is made up
	case "ws":
		p.Target = codec.WebSocket{URL: "ws://" + addr + web.EchoPath}
	case "resp":
		messages := codec.Messages{Address: addr}
		err = messages.Framing.UnmarshalText([]byte(protocol))
		p.Target, p.Content = messages, []byte("PING")
	}
	return p, err
}
