// Package dashboard generates Grafana's dashboards, and the page of the manual that
// describes every metric, from the list of metrics in package observe. So they cannot
// drift apart.
//
//	go test ./observe/dashboard -update
//
// writes what Files returns into the repository. Without -update the same test compares.
// Other tests check the queries against the list. Those of deploy run each on a real
// Prometheus.
package dashboard

import (
	"fmt"
	"strings"
)

// Dashboard is one page of panels.
type Dashboard struct {
	UID   string // stable: links and observe.Metric.Panel refer to it
	Title string
	Help  string
	Rows  []Row
}

// Row is a group of related panels.
type Row struct {
	Title  string
	Panels []Panel
}

// Panel is one chart or value.
type Panel struct {
	Title string
	// Help explains the panel, and what to do about bad values.
	Help    string
	Form    Form
	Unit    string // Grafana's name of the unit
	Queries []Query
	// Alerts of rules.yml that fire on this panel's values: the panel links to the
	// runbook.
	Alerts []string
	// Threshold draws a line at the value at which the first of Alerts fires. Zero: none,
	// because any value above zero is bad, or because a limit is drawn.
	Threshold float64
}

// alerted returns the panel with the alerts that fire on it.
func (p Panel) alerted(threshold float64, alerts ...string) Panel {
	p.Threshold, p.Alerts = threshold, alerts
	return p
}

// noValue returns the text of a panel without data.
func (p Panel) noValue() string {
	for _, q := range p.Queries {
		if q.Empty == "" || q.Empty == limitOff {
			return "no server answers scrapes: see HoneDown and HoneAbsent in docs/operations.md"
		}
	}
	return p.Queries[0].Empty
}

// Form is the visualization of a panel.
type Form string

// The forms.
const (
	Lines Form = "timeseries" // values over time
	Value Form = "stat"       // the latest value
	Name  Form = "name"       // names of the latest series, whose values carry no information
)

// Query is one expression of a panel.
type Query struct {
	Expr   string
	Legend string
	// Empty says when a healthy server has no value. Zero: it always has one.
	Empty string
}

// All returns the dashboards; the article's three figures come first.
func All() []Dashboard { return []Dashboard{server(), pools(), process(), gateway()} }

// Files returns the generated files by their paths in the repository.
func Files() map[string][]byte {
	files := map[string][]byte{"observe/metrics.md": metricsPage()}
	for _, d := range All() {
		files["deploy/grafana/dashboards/"+d.UID+".json"] = d.encode()
	}
	return files
}

// chosen selects the job and instances that the reader has chosen at the top of the page.
const chosen = `{job=~"$job",instance=~"$instance"}`

// perInstance sums by instance and further labels.
func perInstance(expr string, by ...string) string {
	return fmt.Sprintf("sum by (%s) (%s)", strings.Join(append([]string{"instance"}, by...), ", "), expr)
}

// gauge returns the query of a gauge.
func gauge(metric string, by ...string) string { return perInstance(metric+chosen, by...) }

// rate returns the query of a counter's rate per second.
func rate(counter string, by ...string) string {
	return perInstance("rate("+counter+chosen+"[$__rate_interval])", by...)
}

// quantile returns the query of a histogram's quantile.
func quantile(part, histogram string) string {
	return fmt.Sprintf("histogram_quantile(%s, %s)", part, rate(histogram+"_bucket", "le"))
}

// legend names a line by the instance and the values of labels.
func legend(labels ...string) string {
	text := "{{instance}}"
	for _, l := range labels {
		text += " {{" + l + "}}"
	}
	return text
}

// lines is a panel over time with one query per line.
func lines(title, unit, help string, queries ...Query) Panel {
	return Panel{Title: title, Help: help, Form: Lines, Unit: unit, Queries: queries}
}

// value is a panel of latest values.
func value(title, unit, help string, queries ...Query) Panel {
	return Panel{Title: title, Help: help, Form: Value, Unit: unit, Queries: queries}
}
