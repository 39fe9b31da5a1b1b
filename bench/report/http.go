package report

import (
	"fmt"
	"strings"
)

// The scenarios that compare CPU, and the names of the other scenarios in the tables.
func httpCPU() []string {
	return []string{"hello", "hello-256", "2KiB", "pipelined", "browser", "TLS", "picture", rateScenario}
}

const (
	rateScenario  = "rate"
	callsScenario = "calls"
	wrkScenario   = "wrk"
)

// Tables are the table names that HTTP.Table accepts.
func (p *HTTP) Tables() []string {
	return []string{"cpu", "nethttp", "fasthttp", "rates", "other", "run"}
}

// Table returns one table.
func (p *HTTP) Table(name string) (string, error) {
	switch name {
	case "cpu":
		return p.matrix(httpCPU(), func(scenario, server string) string { return p.cell(scenario, server, cpuOf) }), nil
	case "nethttp":
		return p.against("net/http"), nil
	case "fasthttp":
		return p.against("fasthttp"), nil
	case "rates":
		return p.matrix(httpCPU(), func(scenario, server string) string {
			return p.cell(scenario, server, func(s Sample) *float64 { return scaled(s.Rate, 1e-3) })
		}), nil
	case "other":
		return p.matrix([]string{callsScenario, wrkScenario, "idle-15k", "lent-15k"}, func(scenario, server string) string {
			return p.cell(scenario, server, httpFigure(scenario))
		}), nil
	case "run":
		return p.facts(), nil
	}
	return "", fmt.Errorf("there is no table %q; there are %s", name, strings.Join(p.Tables(), ", "))
}

// httpFigure returns the metric that a scenario measures.
func httpFigure(scenario string) figure {
	switch scenario {
	case callsScenario:
		return func(s Sample) *float64 { return s.Calls }
	case wrkScenario:
		return cpuOf
	}
	return func(s Sample) *float64 { return s.PerConn }
}

// against returns the CPU of every server as a ratio to another's.
func (p *HTTP) against(base string) string {
	return p.matrix(append(httpCPU(), wrkScenario), func(scenario, server string) string { return p.ratio(scenario, server, base) })
}
