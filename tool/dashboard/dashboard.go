// Package dashboard is what an operator looks at, made from the metrics that
// package observe lists: Grafana's dashboards, and the page of the manual that
// describes every metric. Nothing in it is written twice, so nothing drifts.
//
//	go test ./tool/dashboard -update
//
// writes what Files returns into the repository. Without -update the same test
// compares, and others hold the queries to the list, ask a real Prometheus each
// of them, and look at the rest of the deploy folder.
package dashboard

import (
	"fmt"
	"strings"
)

// Dashboard is one page of panels.
type Dashboard struct {
	UID   string // stable: links and observe.Metric.Panel name it
	Title string
	Help  string
	Rows  []Row
}

// Row is panels that belong together.
type Row struct {
	Title  string
	Panels []Panel
}

// Panel is one picture.
type Panel struct {
	Title string
	// Help says what is seen, and what to do when it looks bad.
	Help    string
	Form    Form
	Unit    string // Grafana's name of the values' unit
	Queries []Query
	// Alerts of rules.yml that fire on what is shown: the panel links to what to do.
	Alerts []string
	// Threshold is a line at the value from which on the first of Alerts fires. Zero: none,
	// because anything above zero is bad, or because a limit is drawn.
	Threshold float64
}

// alerted is the panel with the alerts that fire on it.
func (p Panel) alerted(threshold float64, alerts ...string) Panel {
	p.Threshold, p.Alerts = threshold, alerts
	return p
}

// noValue is what the panel says when it has nothing to show.
func (p Panel) noValue() string {
	for _, q := range p.Queries {
		if q.Empty == "" || q.Empty == limitOff {
			return "no server answers scrapes: see HoneDown and HoneAbsent in docs/operations.md"
		}
	}
	return p.Queries[0].Empty
}

// Form is how a panel draws.
type Form string

// The forms.
const (
	Lines Form = "timeseries" // values over time
	Value Form = "stat"       // the latest value
	Name  Form = "name"       // the latest series' names, where the value says nothing
)

// Query is one expression of a panel.
type Query struct {
	Expr   string
	Legend string
	// Empty says when a healthy server has nothing to answer. Zero: it always has.
	Empty string
}

// All are the dashboards, the article's three figures first of all.
func All() []Dashboard { return []Dashboard{server(), pools(), process()} }

// Files are what is generated, by their paths in the repository.
func Files() map[string][]byte {
	files := map[string][]byte{"docs/metrics.md": metricsPage()}
	for _, d := range All() {
		files["deploy/grafana/dashboards/"+d.UID+".json"] = d.encode()
	}
	return files
}

// chosen is the selector of what the reader has chosen at the top of the page.
const chosen = `{job=~"$job",instance=~"$instance"}`

// perInstance sums up by instance and by further labels.
func perInstance(expr string, by ...string) string {
	return fmt.Sprintf("sum by (%s) (%s)", strings.Join(append([]string{"instance"}, by...), ", "), expr)
}

// gauge is a gauge's value now.
func gauge(metric string, by ...string) string { return perInstance(metric+chosen, by...) }

// rate is how fast a counter grows, a second.
func rate(counter string, by ...string) string {
	return perInstance("rate("+counter+chosen+"[$__rate_interval])", by...)
}

// quantile is below what that part of a histogram's values lies.
func quantile(part, histogram string) string {
	return fmt.Sprintf("histogram_quantile(%s, %s)", part, rate(histogram+"_bucket", "le"))
}

// legend names a line by the values of labels, behind the instance.
func legend(labels ...string) string {
	text := "{{instance}}"
	for _, l := range labels {
		text += " {{" + l + "}}"
	}
	return text
}

// lines is a panel over time of one query for each line.
func lines(title, unit, help string, queries ...Query) Panel {
	return Panel{Title: title, Help: help, Form: Lines, Unit: unit, Queries: queries}
}

// value is a panel of latest values.
func value(title, unit, help string, queries ...Query) Panel {
	return Panel{Title: title, Help: help, Form: Value, Unit: unit, Queries: queries}
}
