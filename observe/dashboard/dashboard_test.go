package dashboard

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hone-go/hone/observe"
)

// root is the repository's root.
const root = "../.."

// update writes the files instead of comparing.
var update = flag.Bool("update", false, "write the generated files into the repository")

// TestFiles compares the repository with the generated files, in both directions.
func TestFiles(t *testing.T) {
	files := Files()
	rules, err := os.ReadFile(filepath.Join(root, "deploy", "prometheus", "rules.yml"))
	if err != nil {
		t.Fatal(err)
	}
	files["deploy/kubernetes/monitoring/prometheusrule.yaml"] = ruleObject(string(rules))
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(root, filepath.FromSlash(name))
		if *update {
			if err := os.WriteFile(path, files[name], 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		stored, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(stored, files[name]) {
			t.Errorf("%s is not what is generated (%v); run go test ./observe/dashboard -update", name, err)
		}
	}
	stored, err := filepath.Glob(filepath.Join(root, "deploy/grafana/dashboards/*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stored {
		name, _ := filepath.Rel(root, path)
		if files[filepath.ToSlash(name)] == nil {
			t.Errorf("%s is not generated; remove it", name)
		}
	}
}

// ruleObject returns rules.yml as the Prometheus Operator reads it.
func ruleObject(rules string) []byte {
	var out strings.Builder
	out.WriteString("# Made from deploy/prometheus/rules.yml: go test ./observe/dashboard -update\n" +
		"apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata:\n  name: hone\n" +
		"  labels: {app.kubernetes.io/name: hone}\nspec:\n")
	for line := range strings.Lines(rules[strings.Index(rules, "groups:"):]) {
		if line != "\n" {
			out.WriteString("  ")
		}
		out.WriteString(line)
	}
	return []byte(out.String())
}

// panels returns all panels by DASHBOARD/TITLE.
func panels(t *testing.T) map[string]Panel {
	t.Helper()
	all := map[string]Panel{}
	for _, d := range All() {
		for _, row := range d.Rows {
			for _, p := range row.Panels {
				name := d.UID + "/" + p.Title
				if _, twice := all[name]; twice {
					t.Errorf("%s is there twice", name)
				}
				all[name] = p
			}
		}
	}
	return all
}

// named finds the metrics in an expression: every selector has braces.
func named(expr string) []string {
	var names []string
	for _, m := range regexp.MustCompile(`([a-zA-Z_:][a-zA-Z0-9_:]*)\{`).FindAllStringSubmatch(expr, -1) {
		names = append(names, m[1])
	}
	return names
}

// listed returns observe's metrics under all names that a query may use.
func listed() map[string]observe.Metric {
	all := map[string]observe.Metric{}
	for _, m := range observe.Metrics() {
		all[m.Name] = m
		if m.Kind == observe.Histogram || m.Kind == observe.Summary {
			all[m.Name+"_sum"], all[m.Name+"_count"] = m, m
		}
		if m.Kind == observe.Histogram {
			all[m.Name+"_bucket"] = m
		}
	}
	for name, kind := range gatewayMetrics() {
		all[name] = observe.Metric{Name: name, Kind: kind}
	}
	return all
}

// gatewayMetrics finds honed's own metrics in its source.
func gatewayMetrics() map[string]observe.Kind {
	all := map[string]observe.Kind{}
	for _, file := range []string{"cmd/honed/admin.go", "cmd/honed/readers.go", "relay/cmd/honed-relay/admin.go"} {
		text, err := os.ReadFile(filepath.Join(root, "gateway", file))
		if err != nil {
			panic(err)
		}
		for _, m := range regexp.MustCompile(`"(honed_[a-z_]+)"`).FindAllStringSubmatch(string(text), -1) {
			if all[m[1]] = observe.Gauge; strings.HasSuffix(m[1], "_total") {
				all[m[1]] = observe.Counter
			}
		}
	}
	return all
}

// TestNoDrift checks the dashboards against observe's list: a query uses only existing
// metrics, and each metric is shown where its entry says.
func TestNoDrift(t *testing.T) {
	metrics, shown := listed(), map[string][]string{}
	for name, p := range panels(t) {
		for _, q := range p.Queries {
			if len(named(q.Expr)) == 0 {
				t.Errorf("%s: no metric found in %s", name, q.Expr)
			}
			for _, metric := range named(q.Expr) {
				m, ok := metrics[metric]
				if !ok {
					t.Errorf("%s asks for %s, which observe does not have", name, metric)
				}
				shown[m.Name] = append(shown[m.Name], name)
			}
		}
	}
	for _, m := range observe.Metrics() {
		if !slices.Contains(shown[m.Name], m.Panel) {
			t.Errorf("%s should be in the panel %s and is in %q", m.Name, m.Panel, shown[m.Name])
		}
	}
}

// TestPanelsAreUseful checks every panel against the rules of a good one.
func TestPanelsAreUseful(t *testing.T) {
	units := []string{"none", "short", "reqps", "ops", "Bps", "bytes", "s", "percentunit", "dateTimeAsIso"}
	metrics := listed()
	for name, p := range panels(t) {
		if p.Title == "" || len(p.Queries) == 0 || !slices.Contains(units, p.Unit) {
			t.Errorf("%s: title, queries or unit %q (of %v) is missing", name, p.Unit, units)
		}
		if sentence, advice, _ := strings.Cut(p.Help, ". "); len(sentence) < 10 || len(advice) < 20 || !strings.HasSuffix(p.Help, ".") {
			t.Errorf("%s: the help does not say what is seen and then what to do: %q", name, p.Help)
		}
		for _, q := range p.Queries {
			if !strings.Contains(q.Legend, "{{instance}}") {
				t.Errorf("%s: the legend %q does not name the instance", name, q.Legend)
			}
			checkQuery(t, name, q, metrics)
		}
	}
}

// checkQuery checks one expression.
func checkQuery(t *testing.T, panel string, q Query, metrics map[string]observe.Metric) {
	t.Helper()
	if strings.Count(q.Expr, "{") != strings.Count(q.Expr, `{job=~"$job",instance=~"$instance"`) {
		t.Errorf("%s: a selector without job and instance in %s", panel, q.Expr)
	}
	if strings.Contains(q.Expr, "[") && strings.Count(q.Expr, "[") != strings.Count(q.Expr, "[$__rate_interval]") {
		t.Errorf("%s: a range that is not $__rate_interval in %s", panel, q.Expr)
	}
	for _, name := range named(q.Expr) {
		m := metrics[name]
		rated := strings.Contains(q.Expr, "rate("+name+"{")
		counts := m.Kind == observe.Counter || m.Kind == observe.Histogram
		if counts != rated {
			t.Errorf("%s: %s is a %s; rate: %v", panel, name, m.Kind, rated)
		}
		for _, label := range m.Labels {
			if by := regexp.MustCompile(`by \([^)]*\b` + label + `\b`); counts && !by.MatchString(q.Expr) {
				t.Errorf("%s: %s has the label %s, which is added up in %s", panel, name, label, q.Expr)
			}
		}
	}
	if strings.Contains(q.Expr, "histogram_quantile") && !strings.Contains(q.Expr, "le)") {
		t.Errorf("%s: a quantile without le in %s", panel, q.Expr)
	}
	for _, m := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(q.Legend, -1) {
		if !strings.Contains(q.Expr, m[1]) {
			t.Errorf("%s: the legend has %s, the query %s not", panel, m[1], q.Expr)
		}
	}
}

// TestNoValue checks that every panel says why it may be empty.
func TestNoValue(t *testing.T) {
	for name, p := range panels(t) {
		field := p.encode(1, grafanaGrid{}).FieldConfig.Defaults
		if len(field.NoValue) < 10 {
			t.Errorf("%s says nothing when it is empty", name)
		}
		if why := p.Queries[0].Empty; why != "" && len(p.Queries) == 1 && field.NoValue != why {
			t.Errorf("%s says %q when it is empty, and not %q", name, field.NoValue, why)
		}
		if (field.Thresholds != nil) != (p.Threshold > 0) {
			t.Errorf("%s: thresholds %v for %v", name, field.Thresholds, p.Threshold)
		}
	}
}

// TestTheThreeFirst checks which panels come first.
func TestTheThreeFirst(t *testing.T) {
	first := All()[0].Rows[0].Panels
	var asked []string
	for _, p := range first[:3] {
		asked = append(asked, named(p.Queries[0].Expr)...)
	}
	if want := []string{"hone_requests_received_total", "hone_responses_sent_total", "hone_connections"}; !slices.Equal(asked, want) {
		t.Errorf("the first panels show %v, want %v", asked, want)
	}
}

// TestEncoding parses the JSON as Grafana would.
func TestEncoding(t *testing.T) {
	uids := map[string]bool{}
	for _, d := range All() {
		var page grafanaPage
		if err := json.Unmarshal(d.encode(), &page); err != nil {
			t.Fatal(err)
		}
		if page.UID == "" || page.Title == "" || page.Description == "" || uids[page.UID] || page.SchemaVersion < 38 || page.Editable {
			t.Errorf("%s: %+v", d.UID, page)
		}
		uids[page.UID] = true
		var variables []string
		for _, v := range page.Templating.List {
			variables = append(variables, v.Name)
		}
		if want := []string{"datasource", "job", "instance"}; !slices.Equal(variables, want) {
			t.Errorf("%s: variables %v, want %v", d.UID, variables, want)
		}
		checkLayout(t, d.UID, page.Panels)
	}
}

// checkLayout finds panels that overlap, leave the page or lack a source.
func checkLayout(t *testing.T, page string, panels []grafanaPanel) {
	t.Helper()
	taken, ids := map[[2]int]string{}, map[int]bool{}
	for _, p := range panels {
		if ids[p.ID] || p.ID == 0 {
			t.Errorf("%s: %s has the id %d, as another has", page, p.Title, p.ID)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= columns {
					t.Fatalf("%s: %s is at %d,%d, where %q is", page, p.Title, x, y, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Datasource == nil || p.Datasource.UID != "${datasource}" || p.FieldConfig == nil || p.FieldConfig.Defaults.Unit == "" {
			t.Errorf("%s: %s has no data source of the page's choice, or no unit", page, p.Title)
		}
		for i, q := range p.Targets {
			if q.RefID != string(rune('A'+i)) || q.Datasource.UID != "${datasource}" || q.Instant == q.Range {
				t.Errorf("%s: %s: target %+v", page, p.Title, q)
			}
		}
	}
}
