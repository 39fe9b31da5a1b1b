package machine

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
)

func hostWith(files map[string]string) *host {
	root := fstest.MapFS{}
	for name, text := range files {
		root[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return &host{root: root, goos: "linux", wait: func(time.Duration) {}}
}

func TestParseCPUs(t *testing.T) {
	for text, want := range map[string][]int{
		"0": {0}, "0-2": {0, 1, 2}, "0-1,4\n": {0, 1, 4}, "": nil, "x": nil, "2-1": nil, "-1": nil, "0-": nil, "0-99999999": nil,
	} {
		if got := parseCPUs(text); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	for want, list := range map[string][]int{"1 (3)": {3}, "4 (0-2,7)": {0, 1, 2, 7}, "3 (0,2,4)": {0, 2, 4}} {
		if got := (cpuSet{list, len(list)}).String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := (cpuSet{nil, 8}).String(); got != "8" {
		t.Errorf("%q", got)
	}
}

// TestUsable checks which CPUs are usable, and which source wins if two disagree.
func TestUsable(t *testing.T) {
	for _, c := range []struct {
		online, allowed string
		reported        int
		want            string
	}{
		{"0-3", "0-127", 0, "4 (0-3)"},
		{"0-3", "1-2", 2, "2 (1-2)"},
		{"", "0-1", 0, "2 (0-1)"},
		{"0-1", "", 0, "2 (0-1)"},
		{"0-1", "0-15", 16, "16"},
		{"", "", 8, "8"},
		{"", "", 0, ""},
	} {
		h := hostWith(map[string]string{
			"sys/devices/system/cpu/online": c.online, "proc/self/status": "Name: x\nCpus_allowed_list:\t" + c.allowed + "\n",
		})
		h.reported.cpus = c.reported
		if got := h.usable().String(); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// TestVirtual has the traces that hypervisors and containers leave.
func TestVirtual(t *testing.T) {
	const guest, bare, arm = "flags : fpu hypervisor", "flags : fpu", "CPU part : 0xd0c"
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"nothing known":       {nil, ""},
		"hardware":            {map[string]string{"proc/cpuinfo": bare}, "none"},
		"a guest":             {map[string]string{"proc/cpuinfo": guest}, "hypervisor"},
		"Xen":                 {map[string]string{"proc/cpuinfo": bare, "sys/hypervisor/type": "xen"}, "hypervisor"},
		"ARM, nothing said":   {map[string]string{"proc/cpuinfo": arm}, ""},
		"ARM, QEMU's machine": {map[string]string{"proc/cpuinfo": arm, "proc/device-tree/compatible": "linux,dummy-virt\x00"}, "hypervisor"},
		"ARM, a board":        {map[string]string{"proc/cpuinfo": arm, "proc/device-tree/compatible": "raspberrypi,4-model-b"}, "none"},
		"Podman":              {map[string]string{"proc/cpuinfo": bare, "run/.containerenv": ""}, "container"},
		"a pod in a guest":    {map[string]string{"proc/cpuinfo": guest, "proc/1/cgroup": "0::/kubepods/burstable/pod1"}, "hypervisor, container"},
		"a container's disk":  {map[string]string{"proc/cpuinfo": guest, ".dockerenv": "", "proc/2/comm": "kthreadd\n"}, "hypervisor"},
	} {
		if got := hostWith(c.files).virtual(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestLeastQuota checks that the tightest of all cgroups above a process counts, in a
// container, too, where the path is the host's.
func TestLeastQuota(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  string
		path  string
	}{
		"a parent's": {map[string]string{
			"proc/self/cgroup": "0::/a/b", "sys/fs/cgroup/a/b/cpu.max": "300000 100000", "sys/fs/cgroup/a/cpu.max": "150000 100000",
		}, "1.5", "sys/fs/cgroup/a/cpu.max"},
		"its own": {map[string]string{
			"proc/self/cgroup": "0::/a/b", "sys/fs/cgroup/a/b/cpu.max": "125000 100000", "sys/fs/cgroup/a/cpu.max": "150000 100000",
		}, "1.25", "sys/fs/cgroup/a/b/cpu.max"},
		"the root's, under the host's path": {map[string]string{
			"proc/self/cgroup": "4:cpu,cpuacct:/docker/0123", "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
		}, "0.5", "sys/fs/cgroup/cpu/cpu.cfs_quota_us"},
		"none":      {map[string]string{"proc/self/cgroup": "0::/a", "sys/fs/cgroup/a/cpu.max": "max 100000"}, "none", ""},
		"nonsense":  {map[string]string{"proc/self/cgroup": "0::/a", "sys/fs/cgroup/a/cpu.max": "1 0"}, "none", ""},
		"upwards":   {map[string]string{"proc/self/cgroup": "0::/../../a", "sys/fs/cgroup/a/cpu.max": "100000 100000"}, "1", "sys/fs/cgroup/a/cpu.max"},
		"no groups": {nil, "none", ""},
	} {
		h := hostWith(c.files)
		h.root.(fstest.MapFS)["proc/self/status"] = &fstest.MapFile{}
		if got := h.cpuLimit(); got.String() != c.want || got.path != c.path {
			t.Errorf("%s: %v in %q, want %v in %q", name, got, got.path, c.want, c.path)
		}
	}
}

// TestChosenNames checks that names of cgroups and processes, which users choose, cannot
// inject anything into a shell or a terminal.
func TestChosenNames(t *testing.T) {
	for group, want := range map[string]string{
		"app-1.scope":          "echo max | sudo tee /sys/fs/cgroup/app-1.scope/cpu.max",
		`app\x2d1.scope`:       `echo max | sudo tee '/sys/fs/cgroup/app\x2d1.scope/cpu.max'`,
		"sudo $(reboot) 'it's": `echo max | sudo tee '/sys/fs/cgroup/sudo $(reboot) '\''it'\''s/cpu.max'`,
	} {
		h := hostWith(map[string]string{
			"proc/self/status": "Cpus_allowed_list: 0-3", "proc/self/cgroup": "0::/" + group,
			"sys/fs/cgroup/" + group + "/cpu.max": "100000 100000",
		})
		c := h.checkLimit()
		if h.finish(&c); c.Fix != want {
			t.Errorf("%s: %s, want %s", group, c.Fix, want)
		}
		h.superuser = true
		if h.finish(&c); c.Fix != strings.Replace(want, "| sudo", "|", 1) {
			t.Errorf("%s: root types %s", group, c.Fix)
		}
	}
	p, ok := parseProcess("7 (a\n\x1b[2J\xffb) S 1 1 1 0 -1 4194560 1 1 1 1 10 0 0 0 20 0 1 0 99000 1 1 1")
	if !ok || p.name != "a??[2J?b" {
		t.Errorf("%q, %v", p.name, ok)
	}
}

// TestDamage replaces each file of each tree by nonsense: nothing panics, no figure
// leaves its range, and every check has a state.
func TestDamage(t *testing.T) {
	numbers := regexp.MustCompile(`\b\d+\b`)
	trees(t, func(t *testing.T, a *txtar.Archive, _ string) {
		for i, f := range a.Files {
			if f.Name == hostFile || strings.HasPrefix(f.Name, "want/") {
				continue
			}
			for _, text := range []string{"\x00", "-1", "18446744073709551616 1 1 1", string(f.Data[:len(f.Data)/2]), numbers.ReplaceAllString(string(f.Data), "NaN")} {
				a.Files[i].Data = []byte(text)
				h := hostOf(t, a)
				h.facts()
				for _, c := range h.checks(sampleTime) {
					if c.Fix != "" && c.State != Warn && c.State != Bad {
						t.Errorf("%s is %q: %+v", f.Name, text, c)
					}
				}
				first := hostOf(t, a)
				u := first.measure()
				first.wait(sampleTime)
				m := u.Between(first.measure())
				if _, err := json.Marshal(m); err != nil {
					t.Errorf("%s is %q: %v", f.Name, text, err)
				}
				for _, part := range []*float64{m.Others, m.Steal, m.Throttled} {
					if part != nil && !(*part >= 0 && *part <= 1) {
						t.Errorf("%s is %q: a part is %v", f.Name, text, *part)
					}
				}
			}
			a.Files[i].Data = f.Data
		}
	})
}
