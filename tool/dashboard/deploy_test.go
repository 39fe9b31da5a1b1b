package dashboard

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// decode reads a YAML file of the deploy folder into what the test knows of it;
// a field that the test does not know is an error, as are two of one name.
func decode(t *testing.T, into any, parts ...string) {
	t.Helper()
	from := yaml.NewDecoder(strings.NewReader(text(t, parts...)))
	from.KnownFields(true)
	if err := from.Decode(into); err != nil {
		t.Fatalf("%s: %v", filepath.Join(parts...), err)
	}
}

// TestYAML parses every YAML file there is.
func TestYAML(t *testing.T) {
	err := filepath.WalkDir(deployed(t), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".yaml") && !strings.HasSuffix(path, ".yml") {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var any map[string]yaml.Node
		var list []yaml.Node
		if yaml.Unmarshal(b, &any) != nil && yaml.Unmarshal(b, &list) != nil {
			t.Errorf("%s: %v", path, yaml.Unmarshal(b, &any))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// ruleFile is what rules.yml may hold.
type ruleFile struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Record, Alert, Expr, For string
			Labels                   map[string]string
			Annotations              map[string]string
		}
	}
}

// TestRules has promtool check the configuration and fire every alert, and holds
// the rules to observe's list.
func TestRules(t *testing.T) {
	t.Parallel()
	promtool := needs(t, "promtool")
	dir := deployed(t, "prometheus")
	run(t, dir, promtool, "check", "config", "prometheus.yml")
	run(t, dir, promtool, "check", "rules", "rules.yml")
	run(t, dir, promtool, "test", "rules", "rules_test.yml")
	var rules ruleFile
	decode(t, &rules, "prometheus", "rules.yml")
	fired := text(t, "prometheus", "rules_test.yml")
	runbook := runbookEntries(t)
	metrics, recorded, alerts := listed(), map[string]bool{"up": true}, 0
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			recorded[r.Record] = true
			for _, name := range regexp.MustCompile(`\b[a-z_]*:?(hone|go|process)_[a-z0-9_:]+`).FindAllString(r.Expr, -1) {
				if _, ok := metrics[name]; !ok && !recorded[name] {
					t.Errorf("%s%s asks for %s, which observe does not have", r.Record, r.Alert, name)
				}
			}
			if r.Alert == "" {
				continue
			}
			alerts++
			if !strings.Contains(fired, `{alertname="`+r.Alert+`"}`) {
				t.Errorf("rules_test.yml does not fire %s", r.Alert)
			}
			entry := "/docs/operations.md#" + strings.ToLower(r.Alert)
			if !runbook[r.Alert] || !strings.HasSuffix(r.Annotations["runbook_url"], entry) {
				t.Errorf("%s has no entry in docs/operations.md, or its runbook_url %q does not end in %s", r.Alert, r.Annotations["runbook_url"], entry)
			}
			delete(runbook, r.Alert)
			if severity := r.Labels["severity"]; severity != "page" && severity != "ticket" {
				t.Errorf("%s has the severity %q, want page or ticket", r.Alert, severity)
			}
			who := strings.Contains(r.Annotations["summary"], "{{ $labels.") || strings.HasPrefix(r.Expr, "absent(") // absent has no labels
			if !who || len(r.Annotations["description"]) < 20 {
				t.Errorf("%s does not say who is ill and what to try: %q", r.Alert, r.Annotations)
			}
		}
	}
	if alerts == 0 {
		t.Error("no alerts")
	}
	for name := range runbook {
		t.Errorf("docs/operations.md has an entry for %s, which is not an alert", name)
	}
}

// runbookEntries are the headings of the manual's section about alerts, each with enough
// below it to be of use.
func runbookEntries(t *testing.T) map[string]bool {
	t.Helper()
	manual, err := os.ReadFile(filepath.Join(root, "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(manual), "\n## Alerts\n")
	if !found {
		t.Fatal("docs/operations.md has no section about alerts")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	entries := map[string]bool{}
	for i, entry := range strings.Split(section, "\n### ") {
		if i == 0 {
			continue
		}
		name, advice, _ := strings.Cut(entry, "\n")
		if len(strings.TrimSpace(advice)) < 100 {
			t.Errorf("docs/operations.md says next to nothing about %s", name)
		}
		entries[name] = true
	}
	return entries
}

// service is what a service of compose.yaml may hold.
type service struct {
	Restart     string
	ReadOnly    bool     `yaml:"read_only"`
	CapDrop     []string `yaml:"cap_drop"`
	SecurityOpt []string `yaml:"security_opt"`
	Build       struct{ Context, Dockerfile string }
	Image       string
	Hostname    string
	Command     []string
	User        string
	Secrets     []string
	Ports       []string
	Expose      []string
	Ulimits     map[string]int
	StopSignal  string `yaml:"stop_signal"`
	StopGrace   string `yaml:"stop_grace_period"`
	Environment map[string]string
	Volumes     []string
	Tmpfs       []string
	DependsOn   []string `yaml:"depends_on"`
}

// composition is what compose.yaml may hold.
type composition struct {
	Name     string
	Careful  service `yaml:"x-careful"`
	Services map[string]service
	Secrets  map[string]struct{ File string }
	Volumes  map[string]struct{}
}

// pinned is an image with a version of its own.
var pinned = regexp.MustCompile(`^[a-z./-]+:v?[0-9]+\.[0-9]+\.[0-9]+$`)

// TestCompose holds compose.yaml to what its first lines promise. The decoder
// knows no network_mode, no pid and no privileged, so neither can be there.
func TestCompose(t *testing.T) {
	var c composition
	decode(t, &c, "compose.yaml")
	for _, want := range []string{"hone", "prometheus", "alertmanager", "grafana", "node-exporter"} {
		if _, ok := c.Services[want]; !ok {
			t.Errorf("there is no %s", want)
		}
	}
	for name, s := range c.Services {
		if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Equal(s.SecurityOpt, []string{"no-new-privileges:true"}) || s.Restart != "unless-stopped" {
			t.Errorf("%s is not as careful as x-careful: %+v", name, s)
		}
		if !pinned.MatchString(s.Image) {
			t.Errorf("%s: the image %q has no version of three numbers", name, s.Image)
		}
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s publishes %s to more than this machine", name, p)
			}
		}
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			if strings.HasPrefix(from, "/") && from+v != "//:/host:ro,rslave" || strings.HasPrefix(from, ".") && !strings.HasSuffix(v, ":ro") {
				t.Errorf("%s mounts %s", name, v)
			}
			if _, named := c.Volumes[from]; !named && from != "/" && from != "./downloaded" {
				if _, err := os.Stat(deployed(t, from)); err != nil {
					t.Errorf("%s mounts %s: %v", name, v, err)
				}
			}
		}
		for key, v := range s.Environment {
			if strings.Contains(key, "PASSWORD") && !strings.HasPrefix(v, "${GRAFANA_PASSWORD:?") {
				t.Errorf("%s has a password in the file: %s", name, key)
			}
		}
	}
	if got := c.Services["grafana"].Environment["GF_SECURITY_ADMIN_PASSWORD"]; got == "" {
		t.Error("Grafana would start with its default password")
	}
	hone := c.Services["hone"]
	if !strings.HasPrefix(hone.User, "${HONE_USER:?") || hone.StopSignal != "SIGTERM" || hone.Ulimits["nofile"] < 65536 {
		t.Errorf("hone: user %q, stop signal %q, ulimits %v", hone.User, hone.StopSignal, hone.Ulimits)
	}
	grace, err := time.ParseDuration(hone.StopGrace)
	if err != nil || grace <= drain(t) {
		t.Errorf("compose stops hone after %v (%v); a drain takes up to %v", grace, err, drain(t))
	}
	if !slices.Contains(hone.Command, "--admin="+hone.Hostname+":7070") || !strings.Contains(text(t, "prometheus", "targets", "compose.yml"), hone.Hostname+":7070") {
		t.Errorf("Prometheus does not scrape %s:7070, or hone does not bind it: %v", hone.Hostname, hone.Command)
	}
}

// TestGrafana holds the provisioning to the compose file and to the dashboards.
func TestGrafana(t *testing.T) {
	var sources struct {
		APIVersion  int `yaml:"apiVersion"`
		Datasources []struct {
			Name, UID, Type, Access, URL string
			IsDefault                    bool `yaml:"isDefault"`
			Editable                     bool
			JSONData                     map[string]string `yaml:"jsonData"`
		}
	}
	decode(t, &sources, "grafana", "provisioning", "datasources", "prometheus.yaml")
	if len(sources.Datasources) != 1 {
		t.Fatalf("%d data sources", len(sources.Datasources))
	}
	s := sources.Datasources[0]
	if s.Type != "prometheus" || s.URL != "http://prometheus:9090" || !s.IsDefault {
		t.Errorf("data source %+v", s)
	}
	if every := s.JSONData["timeInterval"]; !strings.Contains(text(t, "prometheus", "prometheus.yml"), "\n  scrape_interval: "+every+"\n") {
		t.Errorf("Grafana thinks that scrapes are %s apart; prometheus.yml says otherwise", every)
	}
	compose := text(t, "compose.yaml")
	for _, path := range regexp.MustCompile(`path: (\S+)`).FindAllStringSubmatch(text(t, "grafana", "provisioning", "dashboards", "hone.yaml"), -1) {
		if !strings.Contains(compose, ":"+path[1]+":ro") {
			t.Errorf("Grafana looks for dashboards in %s, where compose.yaml mounts nothing", path[1])
		}
	}
}

// TestDockerfile looks at what the image promises.
func TestDockerfile(t *testing.T) {
	file := text(t, "Dockerfile")
	for _, want := range []string{
		"CGO_ENABLED=0", "\nFROM scratch\n", "\nUSER 65532:65532\n", "\nSTOPSIGNAL SIGTERM\n", "./tool/cmd/hone", "--admin=off",
	} {
		if !strings.Contains(file, want) {
			t.Errorf("the Dockerfile lacks %q", want)
		}
	}
	for _, from := range regexp.MustCompile(`(?m)^FROM (\S+)`).FindAllStringSubmatch(file, -1) {
		if from[1] != "scratch" && !regexp.MustCompile(`:[0-9]+\.[0-9]+\.[0-9]+(-[a-z]+)?$`).MatchString(from[1]) {
			t.Errorf("%s has no version of three numbers", from[1])
		}
	}
	ignored := text(t, "Dockerfile.dockerignore")
	for _, want := range []string{".git", "deploy"} {
		if !slices.Contains(strings.Fields(ignored), want) {
			t.Errorf("%s goes into the build; the secrets are below deploy", want)
		}
	}
}

// drain is how long hone serve takes to end at most, read from its source: the
// drain, and the admin side's last answers.
func drain(t *testing.T) time.Duration {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, "tool", "serving", "serving.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all time.Duration
	for _, name := range []string{"DrainTime", "AdminTime"} {
		m := regexp.MustCompile(name + `\s+= ([0-9]+) \* time\.Second`).FindSubmatch(b)
		if m == nil {
			t.Fatalf("serving.go has no %s in seconds", name)
		}
		n, err := strconv.Atoi(string(m[1]))
		if err != nil {
			t.Fatal(err)
		}
		all += time.Duration(n) * time.Second
	}
	return all
}

// TestSystemd has systemd check the units, and looks at what they promise.
func TestSystemd(t *testing.T) {
	t.Parallel()
	unit, socket := text(t, "systemd", "hone.service"), text(t, "systemd", "hone.socket")
	for _, want := range []string{
		"--addr fd:3 ", "Requires=hone.socket", "KillSignal=SIGTERM", "DynamicUser=yes", "NoNewPrivileges=yes", "ProtectSystem=strict", "--admin 127.0.0.1:",
	} {
		if !strings.Contains(unit, want) {
			t.Errorf("hone.service lacks %q", want)
		}
	}
	if !strings.Contains(socket, "\nFileDescriptorName=hone\n") || !strings.Contains(socket, "\nListenStream=7000\n") {
		t.Error("hone.socket lacks its port or its name")
	}
	number := func(key string) int {
		m := regexp.MustCompile(`(?m)^` + key + `=([0-9]+)`).FindStringSubmatch(unit)
		if m == nil {
			t.Fatalf("hone.service has no %s", key)
		}
		n, _ := strconv.Atoi(m[1])
		return n
	}
	if n := number("LimitNOFILE"); n < 100_000 {
		t.Errorf("LimitNOFILE=%d is less than twice 50 000 connections", n)
	}
	if stop := time.Duration(number("TimeoutStopSec")) * time.Second; stop <= drain(t) {
		t.Errorf("systemd kills after %v; a drain takes up to %v", stop, drain(t))
	}
	analyze := needs(t, "systemd-analyze")
	dir := t.TempDir()
	program, err := os.Executable() // verify wants the program to be there
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"hone.service": strings.ReplaceAll(unit, "/usr/local/bin/hone ", program+" "),
		"hone.socket":  socket,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	said := run(t, dir, analyze, "verify", "--man=no", filepath.Join(dir, "hone.service"), filepath.Join(dir, "hone.socket"))
	for line := range strings.Lines(said) {
		if strings.Contains(line, "hone.s") { // others' units may have faults of their own
			t.Error(line)
		}
	}
}

// TestAddressesAgree compares the ports of all files.
func TestAddressesAgree(t *testing.T) {
	for file, want := range map[string][]string{
		"compose.yaml":               {"--addr=:7000", "127.0.0.1:7000:7000"},
		"Dockerfile":                 {"--addr=:7000", "EXPOSE 7000"},
		"systemd/hone.socket":        {"ListenStream=7000"},
		"systemd/hone.service":       {"127.0.0.1:7070"},
		"kubernetes/deployment.yaml": {"--addr=:7000", "containerPort: 7000", "--admin=:7070", "containerPort: 7070", `prometheus.io/port: "7070"`},
		"kubernetes/service.yaml":    {"port: 7000"},
	} {
		content := text(t, filepath.FromSlash(file))
		for _, w := range want {
			if !strings.Contains(content, w) {
				t.Errorf("%s lacks %q", file, w)
			}
		}
	}
}
