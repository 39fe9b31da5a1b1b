// Package faults attacks servers with tool/torture, each started by it and alone.
package faults

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/bench/report"
	"github.com/hone-go/hone/tool/torture"
	"github.com/hone-go/hone/tool/trial"
)

// Run is what to attack. Every field but Limits is required.
type Run struct {
	Dir       string // where Build has put the programs
	Servers   []fleet.Entry
	Scenarios []torture.Scenario
	Limits    torture.Limits
	Seed      uint64
	Say       func(line string)
}

// Choose returns the scenarios of those names, or all without any.
func Choose(names []string) (chosen []torture.Scenario, err error) {
	for _, s := range torture.Scenarios() {
		if len(names) == 0 || slices.Contains(names, s.Name) {
			chosen = append(chosen, s)
		}
	}
	if len(names) > 0 && len(chosen) != len(names) {
		err = fmt.Errorf("not all of %s are scenarios; hone torture --list prints them", strings.Join(names, ","))
	}
	return chosen, err
}

// Do attacks every server. When ctx ends, what there is until then is returned.
func (r *Run) Do(ctx context.Context) *report.Torture {
	all := &report.Torture{Wait: r.Limits.Wait.Seconds(), Seed: r.Seed}
	all.Schema, all.InvalidReasons, all.Servers = report.TortureSchema, []string{}, r.Servers
	for _, e := range r.Servers {
		found, err := r.attack(ctx, e)
		switch {
		case ctx.Err() != nil:
			all.InvalidReasons = append(all.InvalidReasons, "interrupted; let it run to the end")
			return all
		case err != nil:
			all.InvalidReasons = append(all.InvalidReasons, fmt.Sprintf("%s: %v", e.Name, err))
			continue
		}
		for _, made := range found.Results {
			if made.Verdict != torture.NotApplicable {
				all.Outcomes = append(all.Outcomes, report.Outcome{Server: e.Name, Scenario: made.Name, Verdict: made.Verdict.String(), Words: strings.ReplaceAll(made.Words, r.Dir+"/", "")})
			}
		}
		r.Say(e.Name + ": " + found.Summary())
	}
	all.Valid = len(all.InvalidReasons) == 0
	return all
}

// attack starts one server and attacks it.
func (r *Run) attack(ctx context.Context, e fleet.Entry) (*torture.Report, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := ln.Addr().String()
	ln.Close() // in the moment between, another program could take the port: then the server does not start
	line, err := command(r.Dir, addr, e)
	if err != nil {
		return nil, err
	}
	p := torture.Plan{Limits: r.Limits, Seed: r.Seed, Scenarios: r.Scenarios, Server: trial.Server{Command: line, Dir: r.Dir}}
	if p.Load, err = plan(e.Name, addr); err != nil {
		return nil, err
	}
	if whole[e.Name] == "" { // the programs of bench/servers leave SIGTERM to Go
		p.Scenarios = slices.DeleteFunc(slices.Clone(p.Scenarios), func(s torture.Scenario) bool { return s.Name == "sigterm-under-load" })
	}
	if strings.HasPrefix(e.Name, http2) { // which are attacked with the rest over HTTP/1.1
		p.Scenarios = slices.DeleteFunc(slices.Clone(p.Scenarios), func(s torture.Scenario) bool { return !s.HTTP2 })
	}
	p.Progress = func(now torture.Progress) {
		if now.Made != nil && now.Made.Verdict > torture.Survived {
			r.Say(fmt.Sprintf("%-24s %-13v %-22s %s", e.Name, now.Made.Verdict, now.Made.Name, now.Made.Words))
		}
	}
	return torture.Run(ctx, p)
}
