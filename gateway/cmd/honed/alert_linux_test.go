package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hone-go/hone/gateway"
	"github.com/hone-go/hone/internal/testrun"
)

// TestReaderHoldsLogAlert: a reader that is away holds the log until it is nearly full, and a real Alertmanager is told
// by a real Prometheus, with the rules of deploy/ and shorter waits. --retain-hard frees the log, and the reader gets
// the gap.
func TestReaderHoldsLogAlert(t *testing.T) {
	t.Parallel()
	if !testrun.All() {
		t.Skip("fills a log of 400 MB; HONE_TEST_ALL=1 runs it")
	}
	heard := &alerts{}
	hook := httptest.NewServer(heard)
	t.Cleanup(hook.Close)
	managed, asked, target := freeAddr(t), freeAddr(t), freeAddr(t)
	shorter := regexp.MustCompile(`(?m)^( +)(for|group_wait|group_interval): [0-9]+[smh]$`)
	folder := t.TempDir()
	for file, text := range map[string]string{
		"alertmanager.yml": strings.Replace(shorter.ReplaceAllString(deployed(t, "alertmanager/alertmanager.yml"), "$1$2: 1s"),
			"  - name: page\n", "  - name: page\n    webhook_configs: [{url: '"+hook.URL+"/page'}]\n", 1),
		"rules.yml": shorter.ReplaceAllString(deployed(t, "prometheus/rules.yml"), "$1$2: 1s"),
		"prometheus.yml": "global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [rules.yml]\n" +
			"alerting: {alertmanagers: [{static_configs: [{targets: ['" + managed + "']}]}]}\n" +
			"scrape_configs: [{job_name: honed, metrics_path: /gateway/metrics, static_configs: [{targets: ['" + target + "']}]}]\n",
	} {
		must(t, os.WriteFile(filepath.Join(folder, file), []byte(text), 0o600))
	}
	background(t, "prometheus-alertmanager", "--config.file="+folder+"/alertmanager.yml", "--storage.path="+t.TempDir(),
		"--web.listen-address="+managed, "--cluster.listen-address=")
	background(t, "prometheus", "--config.file="+folder+"/prometheus.yml", "--storage.tsdb.path="+t.TempDir(), "--web.listen-address="+asked)

	dir := filepath.Join(t.TempDir(), "log")
	flags := []string{"--admin", target, "--max-log", "400000000", "--retain-size", "100000000"}
	g := startGateway(t, dir, "127.0.0.1:0", flags...)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	submits(t, g.addr, "a", 100)
	r := &gateway.Reader{Addrs: []string{g.addr}, Name: "copy", Start: gateway.FromFirst}
	first, err := r.Next(ctx)
	must(t, err)
	r.Close()
	c, data := &gateway.Client{Addrs: []string{g.addr}, ID: "b"}, make([]byte, 50_000)
	for range 345_000_000 / len(data) {
		if _, err := c.SubmitAsync(ctx, data, nil); err != nil {
			t.Fatal(err)
		}
	}
	must(t, c.Close(ctx))
	eventually(t, "the alert at Alertmanager's receiver", func() bool { return heard.has("/page", `"alertname":"HonedReaderHoldsLog"`) })

	g.kill()
	g = startGateway(t, dir, "127.0.0.1:0", append(flags, "--retain-hard")...)
	eventually(t, "the log to be freed", func() bool {
		return !strings.Contains(get(t, "http://"+g.admin+"/gateway/metrics"), "honed_retention_trims_total 0")
	})
	r = &gateway.Reader{Addrs: []string{g.addr}, Name: "copy", Start: gateway.Stored}
	defer r.Close()
	b, err := r.Next(ctx)
	if err != nil || b.Gap == nil || b.Gap.Reason != gateway.Trimmed || b.Gap.From > first.Messages[0].Number || b.Gap.To <= first.Position.Number {
		t.Errorf("%+v, %v", b.Gap, err)
	}
	if b, err := r.Next(ctx); err != nil || len(b.Messages) == 0 || b.Messages[0].Client != "b" {
		t.Errorf("%d messages behind the gap, %v", len(b.Messages), err)
	}
}

// alerts is a receiver of Alertmanager's.
type alerts struct {
	mu  sync.Mutex
	all []string
}

func (a *alerts) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	text, _ := io.ReadAll(r.Body)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = append(a.all, r.URL.Path+" "+string(text))
}

func (a *alerts) has(path, text string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, one := range a.all {
		if strings.HasPrefix(one, path+" ") && strings.Contains(one, text) && strings.Contains(one, `"status":"firing"`) {
			return true
		}
	}
	return false
}

// deployed returns a file of the deploy folder.
func deployed(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "deploy", file))
	must(t, err)
	return string(text)
}

// background runs a program until the test ends.
func background(t *testing.T, name string, args ...string) {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		testrun.Lacks(t, fmt.Sprintf("NOT TESTED HERE: %s is not installed; run make deps", name))
	}
	var said bytes.Buffer
	cmd := exec.Command(path, args...)
	cmd.Stderr, cmd.Stdout = &said, &said
	must(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		if cmd.Wait(); t.Failed() {
			t.Logf("%s: %.3000s", name, said.String())
		}
	})
}
