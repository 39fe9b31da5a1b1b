package deploy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHost checks the files for a host without containers: Prometheus finds its rules and targets, and
// scrapes the same jobs as in compose.
func TestHost(t *testing.T) {
	t.Parallel()
	promtool, amtool := needs(t, "promtool"), needs(t, "amtool")
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(deployed(t, "host"))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "rules.yml"), []byte(text(t, "prometheus", "rules.yml")), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := run(t, dir, promtool, "check", "config", "prometheus.yml"); !strings.Contains(out, "rules found") {
		t.Errorf("promtool found no rules:\n%s", out)
	}
	run(t, dir, amtool, "check-config", deployed(t, "alertmanager", "alertmanager.yml"))
	type job struct {
		Name       string                       `yaml:"job_name"`
		Path       string                       `yaml:"metrics_path"`
		Discovered []struct{ Files []string }   `yaml:"file_sd_configs"`
		Static     []struct{ Targets []string } `yaml:"static_configs"`
	}
	type configuration struct {
		Global, Alerting map[string]any
		Rules            []string `yaml:"rule_files"`
		Jobs             []job    `yaml:"scrape_configs"`
	}
	var here, compose configuration
	decode(t, &here, "host", "prometheus.yml")
	decode(t, &compose, "prometheus", "prometheus.yml")
	if len(here.Jobs) != len(compose.Jobs) {
		t.Fatalf("%d jobs, and %d in compose", len(here.Jobs), len(compose.Jobs))
	}
	for i, j := range here.Jobs {
		if other := compose.Jobs[i]; j.Name != other.Name || j.Path != other.Path || len(j.Discovered) != len(other.Discovered) {
			t.Errorf("job %s differs from compose's %s", j.Name, other.Name)
		}
		for _, s := range j.Static {
			for _, target := range s.Targets {
				if !strings.HasPrefix(target, "127.0.0.1:") {
					t.Errorf("job %s has the target %s, which this machine may not know", j.Name, target)
				}
			}
		}
	}
}

// TestLogrotate rotates the log of a process that has it open: the process goes on writing into it.
func TestLogrotate(t *testing.T) {
	t.Parallel()
	logrotate := needs(t, "logrotate")
	dir := t.TempDir()
	file := filepath.Join(dir, "hone.log")
	config := strings.ReplaceAll(text(t, "host", "logrotate"), "/var/log/hone", dir)
	if err := os.WriteFile(filepath.Join(dir, "config"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600) // as 2>> does
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	log.WriteString("before\n")
	run(t, dir, logrotate, "--force", "--state", filepath.Join(dir, "state"), filepath.Join(dir, "config"))
	log.WriteString("after\n")
	for name, want := range map[string]string{file: "after\n", file + ".1": "before\n"} {
		if got, err := os.ReadFile(name); string(got) != want {
			t.Errorf("%s has %q, %v; want %q", filepath.Base(name), got, err, want)
		}
	}
}
