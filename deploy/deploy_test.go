// Package deploy checks the manifests with the programs that read them (Prometheus, Alertmanager, promtool,
// kubectl, systemd, nginx), runs hone and honed with their arguments, and asks a real Prometheus each query
// of the dashboards that package observe/dashboard generates.
package deploy

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/hone-go/hone/observe"
	"github.com/hone-go/hone/observe/dashboard"
)

// decode reads a YAML file of the deploy folder into the fields that the test expects;
// unknown fields and duplicates are errors.
func decode(t *testing.T, into any, parts ...string) {
	t.Helper()
	from := yaml.NewDecoder(strings.NewReader(text(t, parts...)))
	from.KnownFields(true)
	if err := from.Decode(into); err != nil {
		t.Fatalf("%s: %v", filepath.Join(parts...), err)
	}
}

// TestYAML parses every YAML file in the folder.
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

// ruleFile lists what rules.yml may contain.
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

// TestRules has promtool check the configuration and fire every alert, and checks the
// rules against observe's list.
func TestRules(t *testing.T) {
	t.Parallel()
	promtool := needs(t, "promtool")
	dir := deployed(t, "prometheus")
	run(t, dir, promtool, "check", "config", "prometheus.yml") // and the rules that it names
	run(t, dir, promtool, "test", "rules", "rules_test.yml")
	var rules ruleFile
	decode(t, &rules, "prometheus", "rules.yml")
	fired := text(t, "prometheus", "rules_test.yml")
	runbook := runbookEntries(t)
	metrics, recorded, alerts := listed(), map[string]bool{"up": true}, 0
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			recorded[r.Record] = true
			if regexp.MustCompile(`\bjob *(=|!)`).MatchString(r.Expr) {
				t.Errorf("%s%s chooses by the job's name, which is the user's: %s", r.Record, r.Alert, r.Expr)
			}
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

// runbookEntries returns the headings of the manual's section on alerts, each with enough
// text to be of use.
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

// service lists what a service of compose.yaml may contain.
type service struct {
	Restart     string
	ReadOnly    bool     `yaml:"read_only"`
	CapDrop     []string `yaml:"cap_drop"`
	SecurityOpt []string `yaml:"security_opt"`
	Build       struct {
		Context, Dockerfile, Target string
		Args                        map[string]string
	}
	MemLimit    string `yaml:"mem_limit"`
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

// composition lists what compose.yaml may contain.
type composition struct {
	Name     string
	Careful  service `yaml:"x-careful"`
	Services map[string]service
	Secrets  map[string]struct{ File string }
	Volumes  map[string]struct{}
}

// pinned matches an image with a fixed version.
var pinned = regexp.MustCompile(`^[a-z./-]+:v?[0-9]+\.[0-9]+\.[0-9]+$`)

// TestCompose checks compose.yaml against the promises in its first lines. The decoder
// rejects network_mode, pid and privileged.
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
		if name == "hone" {
			if version := "${HONE_VERSION:?"; !strings.HasPrefix(s.Image, "hone:"+version) || !strings.HasPrefix(s.Build.Args["VERSION"], version) {
				t.Errorf("the image %s is built with %q: both need the version", s.Image, s.Build.Args)
			}
		} else if !pinned.MatchString(s.Image) {
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
	for _, variable := range regexp.MustCompile(`\$\{[^}]*\}`).FindAllString(text(t, "compose.yaml"), -1) {
		if !strings.Contains(variable, ":?start with deploy/up, which ") {
			t.Errorf("docker compose alone does not fail without %s", variable)
		}
	}
	if got := c.Services["grafana"].Environment["GF_SECURITY_ADMIN_PASSWORD"]; got == "" {
		t.Error("Grafana would start with its default password")
	}
	hone := c.Services["hone"]
	if !strings.HasPrefix(hone.User, "${HONE_USER:?") || hone.StopSignal != "SIGTERM" || hone.Ulimits["nofile"] < 65536 {
		t.Errorf("hone: user %q, stop signal %q, ulimits %v", hone.User, hone.StopSignal, hone.Ulimits)
	}
	wantMemory(t, "compose.yaml", hone.Environment["GOMEMLIMIT"], hone.MemLimit)
	grace, err := time.ParseDuration(hone.StopGrace)
	if err != nil || grace <= drain(t) {
		t.Errorf("compose stops hone after %v (%v); a drain takes up to %v", grace, err, drain(t))
	}
	if !slices.Contains(hone.Command, "--admin="+hone.Hostname+":7070") || !strings.Contains(text(t, "prometheus", "targets", "compose.yml"), hone.Hostname+":7070") {
		t.Errorf("Prometheus does not scrape %s:7070, or hone does not bind it: %v", hone.Hostname, hone.Command)
	}
}

// wantMemory checks that GOMEMLIMIT is seven to nine tenths of the limit at which the
// process is killed, since Go's memory limit does not cover all memory.
func wantMemory(t *testing.T, where, goal, kill string) {
	t.Helper()
	bytes := func(text string) float64 {
		m := regexp.MustCompile(`^([0-9]+)(m|M|Mi|MiB|G|Gi|GiB)$`).FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("%s: %q is no amount of memory", where, text)
		}
		n, _ := strconv.ParseFloat(m[1], 64)
		if m[2][0] == 'G' {
			n *= 1024
		}
		return n
	}
	if share := bytes(goal) / bytes(kill); share < 0.7 || share > 0.9 {
		t.Errorf("%s: GOMEMLIMIT %s is %.2f of the memory at which the process is killed, %s", where, goal, share, kill)
	}
}

// TestGrafana checks the provisioning against the compose file and the dashboards.
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

// TestDockerfile checks what the images promise.
func TestDockerfile(t *testing.T) {
	file := text(t, "Dockerfile")
	for _, want := range []string{
		"CGO_ENABLED=0", "--admin=off", "\nFROM scratch AS hone\n", "\nFROM scratch AS honed\n", "--mount=type=cache,target=/go/cache",
	} {
		if !strings.Contains(file, want) {
			t.Errorf("the Dockerfile lacks %q", want)
		}
	}
	for i, stage := range strings.Split(file, "\nFROM scratch AS ") {
		for _, want := range []string{`image.version="$VERSION"`, "\nUSER 65532:65532\n", "\nSTOPSIGNAL SIGTERM\n"} {
			if i > 0 && !strings.Contains(stage, want) {
				t.Errorf("image %d lacks %q", i, want)
			}
		}
	}
	if !strings.HasPrefix(file[strings.LastIndex(file, "\nFROM "):], "\nFROM scratch AS hone\n") {
		t.Error("a build without --target does not make hone")
	}
	work, err := os.ReadFile(filepath.Join(root, "go.work"))
	if err != nil {
		t.Fatal(err)
	}
	toolchain := regexp.MustCompile(`(?m)^toolchain go(\S+)$`).FindSubmatch(work)
	if toolchain == nil || !strings.Contains(file, "\nFROM golang:"+string(toolchain[1])+"-") {
		t.Errorf("the images are not built with the Go of go.work, %q", toolchain)
	}
	for _, from := range regexp.MustCompile(`(?m)^FROM (\S+)`).FindAllStringSubmatch(file, -1) {
		if own := from[1] == "scratch" || from[1] == "build"; !own && !regexp.MustCompile(`:[0-9]+\.[0-9]+\.[0-9]+(-[a-z]+)?$`).MatchString(from[1]) {
			t.Errorf("%s has no version of three numbers", from[1])
		}
	}
}

// TestImageBuild copies the build context of the images, and has go list find every file
// that the commands need in it.
func TestImageBuild(t *testing.T) {
	t.Parallel()
	ignored := regexp.MustCompile(ignorePattern(t))
	dir, files := t.TempDir(), 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case ignored.MatchString(filepath.ToSlash(rel)):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			return os.MkdirAll(filepath.Join(dir, rel), 0o700)
		case !d.Type().IsRegular():
			return nil
		}
		files++
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, rel), b, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{".git", "deploy", "bench", "go.work"} {
		if _, err := os.Stat(filepath.Join(dir, secret)); err == nil {
			t.Errorf("%s goes into the build; the secrets are below deploy", secret)
		}
	}
	builds := regexp.MustCompile(`go build -C (\w+) -ldflags="[^"]*-X 'main\.release=\$VERSION'" -o \S+ (\S+)`).FindAllStringSubmatch(text(t, "Dockerfile"), -1)
	if len(builds) != 2 {
		t.Fatalf("the Dockerfile builds %q, want hone and honed, each with its version", builds)
	}
	for _, b := range builds {
		list := exec.Command("go", "list", "-deps", b[2])
		list.Dir = filepath.Join(dir, b[1])
		list.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOFLAGS=-trimpath -buildvcs=false")
		if out, err := list.CombinedOutput(); err != nil {
			t.Errorf("the build of %s misses something: %v\n%s", b[2], err, out)
		}
	}
	t.Logf("%d files go into the build", files)
}

// ignorePattern converts Dockerfile.dockerignore to a regular expression for paths.
func ignorePattern(t *testing.T) string {
	t.Helper()
	var all []string
	for line := range strings.Lines(text(t, "Dockerfile.dockerignore")) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		pattern := regexp.QuoteMeta(line)
		pattern = strings.ReplaceAll(pattern, `\*\*/`, `(?:.*/)?`)
		all = append(all, strings.ReplaceAll(pattern, `\*`, `[^/]*`))
	}
	return `^(?:` + strings.Join(all, "|") + `)(?:/|$)`
}

// drain returns how long hone serve may take to end, read from its source: the drain, and
// the admin side's last responses.
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

// TestSystemd has systemd check the units, and checks what they promise.
func TestSystemd(t *testing.T) {
	t.Parallel()
	for name, wants := range map[string][]string{
		"hone":  {"--addr fd:3 ", "Type=notify\n", "RuntimeDirectoryMode=0700\n", "Requires=hone.socket", "--admin 127.0.0.1:"},
		"honed": {"--data %S/honed ", "Type=notify\n", "RuntimeDirectoryMode=0700\n", "StateDirectory=honed\n", "StateDirectoryMode=0700", "Restart=always", "--admin 127.0.0.1:", "SystemCallFilter=@system-service adjtimex\n"},
	} {
		checkUnit(t, name, text(t, "systemd", name+".service"), wants)
	}
	if strings.Contains(text(t, "systemd", "honed.service"), "\nProtectClock=") {
		t.Error("honed.service: with ProtectClock the kernel does not say whether the clock is synchronised")
	}
	socket := text(t, "systemd", "hone.socket")
	if !strings.Contains(socket, "\nFileDescriptorName=hone\n") || !strings.Contains(socket, "\nListenStream=7000\n") {
		t.Error("hone.socket lacks its port or its name")
	}
	analyze := needs(t, "systemd-analyze")
	dir := t.TempDir()
	program, err := os.Executable() // verify requires that the program exists
	if err != nil {
		t.Fatal(err)
	}
	verify := []string{"verify", "--man=no"}
	for _, name := range []string{"hone.service", "hone.socket", "honed.service"} {
		content := regexp.MustCompile(`/usr/local/bin/honed? `).ReplaceAllLiteralString(text(t, "systemd", name), program+" ")
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		verify = append(verify, path)
	}
	said := run(t, dir, analyze, verify...)
	for line := range strings.Lines(said) {
		if strings.Contains(line, "hone.s") || strings.Contains(line, "honed.s") { // other programs' units may have faults
			t.Error(line)
		}
	}
}

// checkUnit checks one service.
func checkUnit(t *testing.T, name, unit string, wants []string) {
	t.Helper()
	for _, want := range append(wants, "KillSignal=SIGTERM", "DynamicUser=yes", "NoNewPrivileges=yes", "ProtectSystem=strict") {
		if !strings.Contains(unit, want) {
			t.Errorf("%s.service lacks %q", name, want)
		}
	}
	setting := func(key, value string) string {
		t.Helper()
		m := regexp.MustCompile(`(?m)^` + key + `=(` + value + `)`).FindStringSubmatch(unit)
		if m == nil {
			t.Fatalf("%s.service has no %s", name, key)
		}
		return m[1]
	}
	number := func(key string) int {
		n, _ := strconv.Atoi(setting(key, "[0-9]+"))
		return n
	}
	if n := number("LimitNOFILE"); n < 100_000 {
		t.Errorf("%s.service: LimitNOFILE=%d is less than twice 50 000 connections", name, n)
	}
	if stop := time.Duration(number("TimeoutStopSec")) * time.Second; stop <= drain(t) {
		t.Errorf("%s.service: systemd kills after %v; a drain takes up to %v", name, stop, drain(t))
	}
	wantMemory(t, name+".service", setting("Environment=GOMEMLIMIT", `\S+`), setting("MemoryMax", `\S+`))
}

// TestAddressesAgree compares the ports in all files.
func TestAddressesAgree(t *testing.T) {
	for file, want := range map[string][]string{
		"compose.yaml":               {"--addr=:7000", "127.0.0.1:7000:7000"},
		"Dockerfile":                 {"--addr=:7000", "EXPOSE 7000"},
		"systemd/hone.socket":        {"ListenStream=7000"},
		"systemd/hone.service":       {"127.0.0.1:7070"},
		"systemd/honed.service":      {"127.0.0.1:7100", "127.0.0.1:7171"},
		"kubernetes/deployment.yaml": {"--addr=:7000", "containerPort: 7000", "--admin=:7070", "containerPort: 7070", `prometheus.io/port: "7070"`},
		"kubernetes/service.yaml":    {"port: 7000"},

		"kubernetes/honed/statefulset.yaml": {"--listen=:7100", "containerPort: 7100", "--admin=:7171", "containerPort: 7171"},
		"kubernetes/honed/service.yaml":     {"port: 7100"},
	} {
		content := text(t, filepath.FromSlash(file))
		for _, w := range want {
			if !strings.Contains(content, w) {
				t.Errorf("%s lacks %q", file, w)
			}
		}
	}
}

// panels returns the panels of all dashboards.
func panels() (all []dashboard.Panel) {
	for _, d := range dashboard.All() {
		for _, row := range d.Rows {
			all = append(all, row.Panels...)
		}
	}
	return all
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
	return all
}

// TestThresholds checks the panels' lines against the alerts of rules.yml: each alert on
// a metric of observe has a panel, whose line is where the alert fires.
func TestThresholds(t *testing.T) {
	var rules ruleFile
	decode(t, &rules, "prometheus", "rules.yml")
	exprs, shown := map[string]string{}, map[string]bool{
		"HoneDown": true, "HoneAbsent": true, // there is nothing to show
		"HonedLogFull": true, "HonedLogDamage": true, "HonedClockOff": true, "HonedStalled": true, "HonedLogFilling": true, "HonedDisconnected": true, // honed's own metrics
	}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			exprs[r.Alert] = r.Expr
		}
	}
	for _, p := range panels() {
		for i, alert := range p.Alerts {
			expr, found := exprs[alert]
			if !found {
				t.Errorf("%s shows %s, which is not an alert", p.Title, alert)
			}
			shown[alert] = true
			expr, _, _ = strings.Cut(expr, " and on ")
			ratio := strings.Contains(expr, "_limit") || strings.Contains(expr, "process_")
			fires, err := strconv.ParseFloat(expr[strings.LastIndex(expr, "> ")+2:], 64)
			if i == 0 && !ratio && (err != nil || fires != p.Threshold) {
				t.Errorf("%s has its line at %v, and %s fires at %v (%v)", p.Title, p.Threshold, alert, fires, err)
			}
		}
	}
	for alert := range exprs {
		if alert != "" && !shown[alert] {
			t.Errorf("no panel shows %s", alert)
		}
	}
}
