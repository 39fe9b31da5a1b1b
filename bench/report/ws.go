package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hone-go/hone/bench/fleet"
)

// wsCPU are the scenarios that compare CPU.
func wsCPU() []string { return []string{"100x1", "2000x1", "100x16"} }

const (
	pushScenario = "push"
	deafScenario = "deaf"
)

// Tables are the table names that WS.Table accepts.
func (p *WS) Tables() []string {
	return []string{"cpu", "gorilla", "best", "rates", "other", "push", "deaf", "run"}
}

// Table returns one table.
func (p *WS) Table(name string) (string, error) {
	switch name {
	case "cpu":
		return p.matrix(wsCPU(), func(scenario, server string) string { return p.cell(scenario, server, cpuOf) }), nil
	case "gorilla":
		return p.matrix(wsCPU(), func(scenario, server string) string { return p.ratio(scenario, server, "gorilla") }), nil
	case "best":
		return p.matrix(wsCPU(), func(scenario, server string) string {
			return p.ratio(scenario, server, p.bestPeer(scenario, server))
		}), nil
	case "rates":
		return p.matrix(wsCPU(), func(scenario, server string) string {
			return p.cell(scenario, server, func(s Sample) *float64 { return scaled(s.Rate, 1e-3) })
		}), nil
	case "other":
		return p.columns([]column{
			{"idle bytes", "idle-15k", func(s Sample) *float64 { return s.PerConn }},
			{"instructions", "instructions", func(s Sample) *float64 { return s.UserInstructions }},
			{"of the kernel", "instructions", func(s Sample) *float64 { return s.KernelInstructions }},
		}), nil
	case "push":
		return p.columns([]column{
			{"CPU µs", pushScenario, ofPush(func(f *Push) *float64 { return f.CPU })},
			{"user µs", pushScenario, ofPush(func(f *Push) *float64 { return f.User })},
			{"peak MiB", pushScenario, ofPush(func(f *Push) *float64 { return mebibytes(f.Peak) })},
			{"p99 µs alone", pushScenario, ofPush(func(f *Push) *float64 { return f.Alone })},
			{"p99 µs meanwhile", pushScenario, ofPush(func(f *Push) *float64 { return f.During })},
		}), nil
	case "deaf":
		return p.columns([]column{
			{"closed", deafScenario, ofPush(func(f *Push) *float64 { n := float64(f.Closed); return &n })},
			{"after s", deafScenario, ofPush(func(f *Push) *float64 { return f.ClosedAfter })},
			{"memory grown by MiB", deafScenario, ofPush(func(f *Push) *float64 { return mebibytes(f.Grown) })},
		}), nil
	case "run":
		return p.facts(), nil
	}
	return "", fmt.Errorf("there is no table %q; there are %s", name, strings.Join(p.Tables(), ", "))
}

// ofPush returns a metric of samples that have pushes.
func ofPush(of func(*Push) *float64) figure {
	return func(s Sample) *float64 {
		if s.Push == nil {
			return nil
		}
		return of(s.Push)
	}
}

func mebibytes(n int64) *float64 {
	v := float64(n) / (1 << 20)
	return &v
}

// column is a metric of a scenario, with its heading.
type column struct {
	heading, scenario string
	of                figure
}

// columns returns a table with a row for each server, without the rows and columns that have
// nothing.
func (p *Peers) columns(columns []column) string {
	none := Spread{}.String()
	columns = slices.DeleteFunc(slices.Clone(columns), func(c column) bool {
		return !slices.ContainsFunc(p.Servers, func(e fleet.Entry) bool { return p.cell(c.scenario, e.Name, c.of) != none })
	})
	rows := [][]string{{"server"}}
	for _, c := range columns {
		rows[0] = append(rows[0], c.heading)
	}
	for _, e := range p.Servers {
		row, some := []string{serverName(e.Name, e.Version)}, false
		for _, c := range columns {
			text := p.cell(c.scenario, e.Name, c.of)
			some = some || text != none
			row = append(row, text)
		}
		if some {
			rows = append(rows, row)
		}
	}
	return markdown(rows)
}
