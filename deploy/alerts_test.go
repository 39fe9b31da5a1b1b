package deploy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestAlertmanager has amtool check the configuration, and checks where it routes each
// alert.
func TestAlertmanager(t *testing.T) {
	t.Parallel()
	amtool := needs(t, "amtool")
	config := deployed(t, "alertmanager", "alertmanager.yml")
	run(t, ".", amtool, "check-config", config)
	for alert, severity := range severities(t) {
		said := run(t, ".", amtool, "config", "routes", "test", "--config.file="+config, "alertname="+alert, "severity="+severity)
		if words := strings.Fields(said); len(words) == 0 || words[len(words)-1] != severity { // warnings may come first
			t.Errorf("%s, a %s, goes to %q", alert, severity, said)
		}
	}
}

// severities maps all alerts to their severities.
func severities(t *testing.T) map[string]string {
	t.Helper()
	var rules ruleFile
	decode(t, &rules, "prometheus", "rules.yml")
	all := map[string]string{}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			if r.Alert != "" {
				all[r.Alert] = r.Labels["severity"]
			}
		}
	}
	return all
}

// TestEveryAlertIsReceived runs a Prometheus and an Alertmanager with the deploy folder's
// configurations, with shorter waits. The target serves the metrics of rules_test.yml's
// faulty server, and then disappears. A webhook must receive every alert, under the path
// of its severity.
func TestEveryAlertIsReceived(t *testing.T) {
	t.Parallel()
	prometheus, alertmanager := daemons(t, "prometheus", "prometheus-alertmanager")
	hook := newWebhook(t)
	ill := httptest.NewServer(illServer(t))
	t.Cleanup(ill.Close)
	wait := regexp.MustCompile(`(?m)^( +)(for|group_wait|group_interval): [0-9]+[smh]$`)
	receivers := text(t, "alertmanager", "alertmanager.yml")
	for _, name := range []string{"page", "ticket"} {
		line := "  - name: " + name + "\n"
		if !strings.Contains(receivers, line) {
			t.Fatalf("alertmanager.yml has no receiver %s", name)
		}
		receivers = strings.Replace(receivers, line, line+"    webhook_configs: [{url: '"+hook.url+"/"+name+"'}]\n", 1)
	}
	config := filepath.Join(t.TempDir(), "alertmanager.yml")
	if err := os.WriteFile(config, []byte(wait.ReplaceAllString(receivers, "$1$2: 1s")), 0o600); err != nil {
		t.Fatal(err)
	}
	manager := daemon(t, listening, alertmanager, "--config.file="+config, "--storage.path="+t.TempDir(),
		"--web.listen-address=127.0.0.1:0", "--cluster.listen-address=")
	rules := wait.ReplaceAllString(text(t, "prometheus", "rules.yml"), "$1$2: 1s")
	if rules == text(t, "prometheus", "rules.yml") {
		t.Fatal("no rule waits")
	}
	target := strings.TrimPrefix(ill.URL, "http://")
	newAPI(t, daemon(t, listening, prometheus, "--config.file="+configuration(t, target, target, manager, rules),
		"--storage.tsdb.path="+t.TempDir(), "--web.listen-address=127.0.0.1:0"))
	gone := []string{"HoneDown", "HoneAbsent"} // these cannot fire while the target answers
	want := severities(t)
	hook.await(t, want, gone...)
	ill.Close()
	hook.await(t, want)
}

// webhook receives alerts from Alertmanager.
type webhook struct {
	url   string
	mu    sync.Mutex
	heard map[string]string // the path of each firing alert, by its name
	wrong []string
}

func newWebhook(t *testing.T) *webhook {
	t.Helper()
	h := &webhook{heard: map[string]string{}}
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	h.url = srv.URL
	return h
}

// ServeHTTP accepts what Alertmanager posts.
func (h *webhook) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	var message struct {
		Alerts []struct {
			Status              string
			Labels, Annotations map[string]string
		}
	}
	err := json.NewDecoder(r.Body).Decode(&message)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		h.wrong = append(h.wrong, err.Error())
	}
	for _, a := range message.Alerts {
		if a.Status != "firing" {
			continue
		}
		name, summary := a.Labels["alertname"], a.Annotations["summary"]
		h.heard[name] = strings.TrimPrefix(r.URL.Path, "/")
		if summary == "" || strings.Contains(summary, "<no value>") || strings.Contains(summary, "{{") || a.Annotations["runbook_url"] == "" {
			h.wrong = append(h.wrong, fmt.Sprintf("%s says %q", name, a.Annotations))
		}
	}
}

// await waits until every alert except those in but has arrived at its path.
func (h *webhook) await(t *testing.T, want map[string]string, but ...string) {
	t.Helper()
	var missing []string
	for deadline := time.Now().Add(2 * patience); time.Now().Before(deadline); <-time.After(50 * time.Millisecond) {
		missing = missing[:0]
		h.mu.Lock()
		for _, wrong := range h.wrong {
			t.Error(wrong)
		}
		h.wrong = nil
		for name, severity := range want {
			switch at, heard := h.heard[name]; {
			case heard && at != severity:
				t.Errorf("%s came in as a %s, and is a %s", name, at, severity)
			case heard == slices.Contains(but, name):
				missing = append(missing, name)
			}
		}
		h.mu.Unlock()
		if len(missing) == 0 || t.Failed() {
			return
		}
	}
	t.Fatalf("after %v these were not heard, or were and should not: %q", 2*patience, missing)
}

// illServer answers a scrape as rules_test.yml's first server would, with a minute
// shortened to a second: a rate over five minutes starts out as a rate over seconds.
func illServer(t *testing.T) http.HandlerFunc {
	t.Helper()
	var tests struct {
		Rules    []string `yaml:"rule_files"`
		Interval string   `yaml:"evaluation_interval"`
		Tests    []struct {
			Name, Interval string
			Series         []struct{ Series, Values string } `yaml:"input_series"`
			Asked          []struct {
				Expr    string
				At      string `yaml:"eval_time"`
				Samples []struct {
					Labels string
					Value  float64
				} `yaml:"exp_samples"`
			} `yaml:"promql_expr_test"`
		}
	}
	decode(t, &tests, "prometheus", "rules_test.yml")
	first := tests.Tests[0]
	if first.Name != "everything is wrong" || first.Interval != "1m" {
		t.Fatalf("the first test of rules_test.yml is %q, with samples %s apart", first.Name, first.Interval)
	}
	type line struct {
		series           string
		start, perMinute float64
	}
	var lines []line
	target := regexp.MustCompile(`job="[^"]*",instance="[^"]*",?`)
	values := regexp.MustCompile(`^([0-9]+)(?:\+([0-9]+))?x[0-9]+$`)
	for _, s := range first.Series {
		if strings.HasPrefix(s.Series, "up{") {
			continue // Prometheus adds it
		}
		m := values.FindStringSubmatch(s.Values)
		if m == nil {
			t.Fatalf("%s has the values %q, of a kind that is not known here", s.Series, s.Values)
		}
		l := line{series: target.ReplaceAllString(s.Series, "")}
		l.start, _ = strconv.ParseFloat(m[1], 64)
		l.perMinute, _ = strconv.ParseFloat("0"+m[2], 64)
		lines = append(lines, l)
	}
	began := time.Now()
	return func(w http.ResponseWriter, _ *http.Request) {
		minutes := time.Since(began).Seconds()
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		for _, l := range lines {
			fmt.Fprintf(w, "%s %v\n", l.series, l.start+l.perMinute*minutes)
		}
	}
}
