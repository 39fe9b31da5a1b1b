package deploy

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestPanelsHaveData runs a server with every feature that observe can show, under load,
// a honed with a reader, which is a honed-relay, a node_exporter, and a Prometheus with the deploy folder's configuration that scrapes
// all every second. Every query of every panel must return at least one number, and
// every rule must be evaluated.
func TestPanelsHaveData(t *testing.T) {
	t.Parallel()
	prometheus, nodeExporter := daemons(t, "prometheus", "prometheus-node-exporter")
	admin := loadedServer(t)
	honed, relay := relayedGateway(t)
	node := daemon(t, listening, nodeExporter, "--web.listen-address=127.0.0.1:0", "--web.disable-exporter-metrics")
	config := configuration(t, admin, node, node, text(t, "prometheus", "rules.yml")) // nothing receives the alerts
	for folder, address := range map[string]string{"gateways": honed, "relays": relay} {
		targets := filepath.Join(filepath.Dir(config), folder, "one.yml")
		if err := errors.Join(os.MkdirAll(filepath.Dir(targets), 0o755), os.WriteFile(targets, []byte("- targets: ["+address+"]\n"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	api := newAPI(t, daemon(t, listening, prometheus, "--config.file="+config, "--storage.tsdb.path="+t.TempDir(),
		"--web.listen-address=127.0.0.1:0"))
	pending := map[string]string{ // by expression: the panel that uses it
		`up{job="node"} == 1`:                                                    "node_exporter",
		`node_cpu_seconds_total`:                                                 "node_exporter",
		`up{job="hone"} == 1`:                                                    "the server",
		`instance:hone_info:max_1d == 1`:                                         "rules.yml",
		`instance:hone_requests_received:rate1m > 0`:                             "rules.yml",
		`instance:hone_responses_sent:rate1m > 0`:                                "rules.yml",
		`instance_reason:hone_rejected:rate5m`:                                   "rules.yml",
		`instance:hone_handler_duration_seconds:p99_5m`:                          "rules.yml",
		`instance:go_sched_latencies_seconds:p99_5m`:                             "rules.yml",
		`instance:hone_cpu_seconds_per_request:rate5m`:                           "rules.yml",
		`sum(rate(hone_handler_duration_seconds_count{job="hone"}[30s])) > 0`:    "the load",
		`sum(rate(hone_conns_wait_seconds_total{job="hone"}[30s])) > 0`:          "the load",
		`sum(rate(hone_workers_done_total{job="hone"}[30s])) > 0`:                "the load",
		`sum(rate(hone_host_cpu_busy_seconds_total{job="hone"}[30s])) > 0`:       "the load",
		`sum(rate(hone_buffers_hits_total{job="hone",pool="bodies"}[30s])) > 0`:  "the load",
		`count(label_replace({job="hone"}, "n", "$1", "__name__", "(.*)")) > 50`: "the list",
	}
	for _, p := range panels() {
		for _, q := range p.Queries {
			pending[filled(q.Expr)] = p.Title
		}
	}
	asked := len(pending)
	deadline := time.Now().Add(2 * patience) // takes 5 s on an idle machine
	for len(pending) > 0 && time.Now().Before(deadline) {
		for expr := range pending {
			if api.hasData(t, expr) {
				delete(pending, expr)
			}
		}
		<-time.After(100 * time.Millisecond)
	}
	for expr, where := range pending {
		t.Errorf("%s: nothing but NaN for %v: %s", where, 2*patience, expr)
	}
	t.Logf("%d expressions have data", asked-len(pending))
	api.checkRules(t)
}

// relayedGateway starts a honed and a honed-relay that reads from it, and returns the addresses of their
// admin sides.
func relayedGateway(t *testing.T) (honed, relay string) {
	t.Helper()
	socket, data := "unix:"+filepath.Join(t.TempDir(), "honed"), t.TempDir()
	honed = start(t, build(t, "./gateway/cmd/honed"), "--listen", socket, "--admin", "127.0.0.1:0",
		"--data", filepath.Join(data, "log"), "--retain-size", "1000000000").Admin
	relay = daemon(t, `msg=started admin=(\S+)`, build(t, "./gateway/relay/cmd/honed-relay"), "--from", "copy", "--addr", socket, "--to", "stdout",
		"--admin", "127.0.0.1:0", "--data", filepath.Join(data, "dead"))
	return honed, relay
}

// filled fills in Grafana's variables.
func filled(expr string) string {
	return strings.NewReplacer("$__rate_interval", "30s", "$job", "hone.*", "$instance", ".+").Replace(expr)
}
