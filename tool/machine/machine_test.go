package machine

import (
	"embed"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"go.uber.org/goleak"
)

// roleVariable makes the test binary act as another program.
const roleVariable = "HONE_TEST_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) == "burn" {
		burn()
		return
	}
	flag.Bool("update", false, "rewrite what the trees expect with what was seen")
	goleak.VerifyTestMain(m)
}

// Sections of a tree's archive besides the files of /proc and /sys: properties of the
// process, changes of the files a second later, and the expected output.
const (
	emptyFolder = "sys/class/power_supply"

	hostFile   = "host"
	laterDir   = "later/"
	factsFile  = "want/facts"
	checksFile = "want/checks"
	quietFile  = "want/meanwhile"
)

// hostOf makes a host from a recorded tree. Its second passes at once.
func hostOf(t *testing.T, a *txtar.Archive) *host {
	t.Helper()
	first, later := fstest.MapFS{}, fstest.MapFS{}
	h := &host{root: first}
	for _, f := range a.Files {
		name, isLater := strings.CutPrefix(f.Name, laterDir)
		switch {
		case f.Name == hostFile:
			h.set(t, string(f.Data))
		case strings.HasPrefix(f.Name, "want/"):
		case isLater:
			later[name] = &fstest.MapFile{Data: f.Data}
		case f.Name == emptyFolder && len(f.Data) == 0:
			first[f.Name] = &fstest.MapFile{Mode: fs.ModeDir}
		default:
			first[f.Name] = &fstest.MapFile{Data: f.Data}
		}
	}
	h.wait = func(d time.Duration) {
		if d != sampleTime {
			t.Errorf("it waits for %v", d)
		}
		second := maps.Clone(first)
		maps.Copy(second, later)
		h.root = second
	}
	return h
}

func (h *host) set(t *testing.T, words string) {
	for word := range strings.FieldsSeq(words) {
		key, value, _ := strings.Cut(word, "=")
		number, err := strconv.Atoi(value)
		h.goos = "linux"
		switch key {
		case "goarch":
			h.goarch = value
		case "superuser":
			h.superuser = true
		case "procs":
			h.procs = number
		case "pid":
			h.pid = number
		default:
			t.Fatalf("%s: there is no %s", hostFile, key)
		}
		if err != nil && (key == "procs" || key == "pid") {
			t.Fatalf("%s: %v", hostFile, err)
		}
	}
}

func trees(t *testing.T, try func(t *testing.T, a *txtar.Archive, path string)) {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) < 6 {
		t.Fatalf("%d trees, %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			try(t, a, path)
		})
	}
}

// TestTrees checks the output for recorded machines. Run it with -update after a change,
// and review the difference.
func TestTrees(t *testing.T) {
	trees(t, func(t *testing.T, a *txtar.Archive, path string) {
		got := map[string]string{}
		got[factsFile] = factsText(hostOf(t, a).facts())
		got[checksFile] = checksText(hostOf(t, a).checks(sampleTime))
		h := hostOf(t, a)
		first := h.measure()
		h.wait(sampleTime)
		got[quietFile] = meanwhileText(first.Between(h.measure()))
		if flag.Lookup("update").Value.String() == "true" {
			rewrite(t, a, path, got)
			return
		}
		for name, text := range got {
			if want := archived(a, name); text != want {
				t.Errorf("%s: got\n%swant\n%s", name, text, want)
			}
		}
	})
}

func archived(a *txtar.Archive, name string) string {
	i := slices.IndexFunc(a.Files, func(f txtar.File) bool { return f.Name == name })
	if i < 0 {
		return ""
	}
	return string(a.Files[i].Data)
}

func rewrite(t *testing.T, a *txtar.Archive, path string, got map[string]string) {
	a.Files = slices.DeleteFunc(a.Files, func(f txtar.File) bool { return strings.HasPrefix(f.Name, "want/") })
	for _, name := range slices.Sorted(maps.Keys(got)) {
		a.Files = append(a.Files, txtar.File{Name: name, Data: []byte(got[name])})
	}
	if err := os.WriteFile(path, txtar.Format(a), 0o644); err != nil {
		t.Fatal(err)
	}
}

func factsText(f Facts) string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(f.Strict)) {
		fmt.Fprintf(&b, "strict %s: %s\n", key, f.Strict[key])
	}
	for _, key := range slices.Sorted(maps.Keys(f.Soft)) {
		fmt.Fprintf(&b, "soft %s: %s\n", key, f.Soft[key])
	}
	return b.String()
}

func checksText(checks []Check) string {
	var b strings.Builder
	for _, c := range checks {
		fmt.Fprintf(&b, "%s %s: %s [%s]\n", c.State, c.Name, c.Found, c.Want)
		if c.State == Warn || c.State == Bad {
			fmt.Fprintf(&b, "\t%s\n", c.Why)
		}
		if c.Fix != "" {
			fmt.Fprintf(&b, "\t%s\n", c.Fix)
		}
	}
	return b.String()
}

func meanwhileText(m Meanwhile) string {
	var b strings.Builder
	for _, f := range []struct {
		name  string
		value *float64
	}{
		{"others", m.Others}, {"steal", m.Steal}, {"throttled", m.Throttled},
	} {
		if f.value != nil {
			fmt.Fprintf(&b, "%s: %.4g\n", f.name, *f.value)
		}
	}
	return b.String()
}

// TestNothingKnown checks that nothing is reported where nothing can be read.
func TestNothingKnown(t *testing.T) {
	h := &host{root: embed.FS{}, wait: func(time.Duration) {}}
	if f := h.facts(); len(f.Strict)+len(f.Soft) > 0 {
		t.Errorf("%+v", f)
	}
	for _, c := range h.checks(sampleTime) {
		if c.State != Unknown || c.Found != "" || c.Fix != "" {
			t.Errorf("%+v", c)
		}
	}
	if m := h.measure().Between(h.measure()); m != (Meanwhile{}) {
		t.Errorf("%+v", m)
	}
}

// TestCommands checks the form of every command in any tree: it begins with a common
// tool, uses root for system files, and sets the wanted value.
func TestCommands(t *testing.T) {
	begins := regexp.MustCompile(`^(sudo (sysctl -w|prlimit|swapoff) |(sysctl -w|prlimit|swapoff) |echo \S+ \| (sudo )?tee /sys/|ulimit -n \d|go env -w )`)
	value := regexp.MustCompile(`[\w.-]+$`)
	seen := map[string]bool{}
	trees(t, func(t *testing.T, a *txtar.Archive, _ string) {
		h := hostOf(t, a)
		for _, c := range h.checks(sampleTime) {
			if c.Name == "" || c.Want == "" || c.Why == "" || strings.Contains(c.Why+c.Found+c.Fix, "\n") {
				t.Errorf("%+v: something is missing, or has more than one line", c)
			}
			if c.Fix == "" {
				continue
			}
			seen[c.Name] = true
			if !begins.MatchString(c.Fix) {
				t.Errorf("%s: %q is no command that everybody has", c.Name, c.Fix)
			}
			if last := value.FindString(c.Want); last == "" || !strings.Contains(c.Fix, last) {
				t.Errorf("%s: %q does not set %q of %q", c.Name, c.Fix, last, c.Want)
			}
			if h.superuser == strings.Contains(c.Fix, "sudo") && !strings.HasPrefix(c.Fix, "ulimit") {
				t.Errorf("%s: %q, and superuser is %v", c.Name, c.Fix, h.superuser)
			}
			if c.State != Warn && c.State != Bad {
				t.Errorf("%s: nothing to fix, but %q", c.Name, c.Fix)
			}
		}
	})
	for _, name := range []string{
		"cpu-limit", "governor", "turbo", "smt", "clocksource", "swap", "thp", "descriptors", "ports", "backlog",
	} {
		if !seen[name] {
			t.Errorf("no tree has the command of %s", name)
		}
	}
}

// TestThisMachine reads the real machine.
func TestThisMachine(t *testing.T) {
	f := Read()
	must := []string{"goos", "goarch", "cpus"}
	if runtime.GOOS == "linux" {
		must = []string{"goos", "goarch", "cpus", "cpu", "smt", "kernel", "virtual", "cpu-limit", "memory"}
	}
	for _, key := range must {
		if f.Strict[key] == "" {
			t.Errorf("%s is not known", key)
		}
	}
	name, err := os.Hostname()
	for key, value := range f.Soft {
		if strings.Contains(value, "/home/") || err == nil && len(name) > 4 && strings.Contains(value, name) {
			t.Errorf("%s: %q names this machine", key, value)
		}
	}
	if n, _, _ := strings.Cut(f.Strict["cpus"], " "); n != strconv.Itoa(runtime.NumCPU()) {
		t.Errorf("%s of %d CPUs", f.Strict["cpus"], runtime.NumCPU())
	}
	quick := QuickChecks()
	for _, c := range quick {
		if sampled := c.Name == "others" || c.Name == "steal"; sampled && c.State != Unknown {
			t.Errorf("%+v: nobody has watched", c)
		}
	}
	if full := Checks(); len(full) != len(quick) || len(full) < 16 {
		t.Errorf("%d checks, %d of them quick", len(full), len(quick))
	}
	t.Logf("\n%s%s", factsText(f), checksText(quick))
}

// TestClosesFiles counts descriptors around everything that opens files.
func TestClosesFiles(t *testing.T) {
	const table = "/proc/self/fd"
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	open := 0
	for round := range 2 { // the first round may open descriptors that the Go runtime keeps
		Read()
		Measure()
		QuickChecks()
		if _, err := Program(self); err != nil {
			t.Error(err)
		}
		entries, err := os.ReadDir(table)
		if err != nil {
			t.Skipf("descriptors cannot be counted here: %v", err)
		}
		if round > 0 && len(entries) != open {
			t.Errorf("%d descriptors, %d before", len(entries), open)
		}
		open = len(entries)
	}
}
