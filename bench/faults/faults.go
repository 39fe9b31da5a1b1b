// Package faults does to servers what networks, clients and handlers do to them
// sooner or later, each time to a fresh process, and says in words how
// it. Every probe ends by itself.
package faults

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hone-go/hone/bench/drive"
	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/bench/report"
)

// Probe is one thing that goes wrong.
type Probe struct {
	Name  string
	Title string
	// do does it. What it returns as an error could not be found out.
	do func(context.Context, *scene) (verdict, error)
}

// verdict is what became of a server.
type verdict struct {
	survived bool
	words    string
}

func survived(format string, args ...any) verdict { return verdict{true, fmt.Sprintf(format, args...)} }
func failed(format string, args ...any) verdict   { return verdict{false, fmt.Sprintf(format, args...)} }

// Probes lists them.
func Probes() []Probe {
	return []Probe{
		{"descriptors", "60 clients connect to a process that may open 20 descriptors more, and 10 when it may open none; a second later all of them leave", outOfDescriptors},
		{"never-reads", "one client sends requests as fast as it can, 256 MiB at most, and reads none of the answers", neverReads},
		{"half-close", "100 requests, then the client closes its sending side and reads", halfClose},
		{"long-close", "an answer of 16 MiB behind which the server closes the connection; the client reads 0.2 s later", longClose},
		{"long-half-close", "an answer of 16 MiB to a client that has closed its sending side; it reads 0.2 s later", longHalfClose},
		{"panic", "a handler panics", panics},
		{"length-3", "a client sends 00 00 00 03, a length that cannot be", impossibleLength},
		{"trickle", "1,000 clients send a byte a second each of one request", trickle},
	}
}

// Choose returns the probes of those names, or all without any.
func Choose(names []string) ([]Probe, error) {
	all := Probes()
	if len(names) == 0 {
		return all, nil
	}
	var known []string
	for _, p := range all {
		known = append(known, p.Name)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("there is no probe %q; use some of %s", name, strings.Join(known, ","))
		}
	}
	return slices.DeleteFunc(all, func(p Probe) bool { return !slices.Contains(names, p.Name) }), nil
}

// Run is what to probe. Every field is required.
type Run struct {
	Dir     string // where fleet.Build has put the programs
	Servers []fleet.Entry
	Probes  []Probe
	Trickle time.Duration // how long bytes trickle
	Flood   int           // bytes that the client that never reads sends at most
	Say     func(line string)
}

// probeTime bounds one probe of one server.
const probeTime = 30 * time.Second

// Do probes every server. When ctx ends, what there is until then is returned.
func (r *Run) Do(ctx context.Context) *report.Faults {
	f := &report.Faults{}
	f.Schema, f.InvalidReasons = report.FaultsSchema, []string{}
	f.Servers = slices.DeleteFunc(slices.Clone(r.Servers), func(e fleet.Entry) bool { return e.Extra })
	for _, p := range r.Probes {
		f.Probes = append(f.Probes, report.Scenario{Name: p.Name, Title: p.Title})
		for _, e := range f.Servers {
			found, err := r.probe(ctx, p, e)
			if ctx.Err() != nil {
				f.InvalidReasons = append(f.InvalidReasons, "interrupted; let it run to the end")
				return f
			}
			if err != nil {
				f.InvalidReasons = append(f.InvalidReasons, fmt.Sprintf("%s of %s: %v", p.Name, e.Name, err))
				found.Words = "not found out: " + err.Error()
			}
			f.Findings = append(f.Findings, found)
			r.Say(fmt.Sprintf("%-16s %-14s %-9s %s", p.Name, e.Name, map[bool]string{true: "survived", false: "FAILED"}[found.Survived], found.Words))
		}
	}
	f.Valid = len(f.InvalidReasons) == 0
	return f
}

// probe does one thing to a fresh server.
func (r *Run) probe(ctx context.Context, p Probe, e fleet.Entry) (report.Finding, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	found := report.Finding{Probe: p.Name, Server: e.Name}
	server, err := fleet.Start(ctx, r.Dir, e, fleet.How{CPU: fleet.AnyCPU, Loops: 2, Sleep: time.Millisecond})
	if err != nil {
		return found, err
	}
	defer server.Stop()
	s := &scene{run: r, server: server}
	defer s.close()
	if s.bystander, err = drive.Served(ctx, server.Addr); err != nil {
		return found, err
	}
	w := startWatch(server)
	v, err := p.do(ctx, s)
	found.Grown, found.CPU = w.stop()
	found.Survived, found.Words = v.survived && err == nil, v.words
	return found, err
}
