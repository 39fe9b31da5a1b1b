package spec

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// read fills a subject from a file with that name.
func read(t *testing.T, name, text string) (*Subject, *cobra.Command, error) {
	t.Helper()
	s, cmd := new(Subject), &cobra.Command{Use: "bench"}
	s.Define(cmd)
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return s, cmd, ReadFile(cmd, file)
}

// TOML and JSON with the same keys are the same scenario.
func TestFilesMeanTheSame(t *testing.T) {
	var kept []string
	for name, text := range map[string]string{
		"hello.toml": "cmd = \"./server\"\ntarget = \"http://127.0.0.1:8080/users\"\nrate = 12000000\nfor = \"5s\"\nheader = [\"A: b\", \"C: d\"]\ninsecure = false\n",
		"hello.json": `{"cmd": "./server", "target": "http://127.0.0.1:8080/users", "rate": 12000000, "for": "5s", "header": ["A: b", "C: d"], "insecure": false}`,
	} {
		s, _, err := read(t, name, text)
		if err != nil {
			t.Fatal(err)
		}
		if s.Load.Plan.Rate != 12e6 || s.Target != "http://127.0.0.1:8080/users" || len(s.Load.target.header) != 2 {
			t.Errorf("%s: %+v", name, s)
		}
		kept = append(kept, strings.Join(s.Load.Kept("hello", s.Target).Words(), "\n"))
	}
	if kept[0] != kept[1] || kept[0] == "" {
		t.Errorf("they are kept as %q and %q", kept[0], kept[1])
	}
}

// Errors of files name the file and the key.
func TestFilesRefused(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"a.json", `{"conn": 5}`, `: unknown key "conn"; did you mean conns?`},
		{"a.json", `[5]`, ": json: cannot unmarshal array into Go value of type map[string]interface {}; write one JSON object"},
		{"a.json", `{"conns": {}}`, ": conns: it must be a string, a number, true or false, or a list of these"},
		{"a.toml", "conns = 5\nagainst = \"main\"", `: unknown key "against"; see hone bench --help`},
		{"a.toml", "conns = =", ", line 1: expected value but found '=' instead; see https://toml.io"},
	} {
		_, _, err := read(t, c.name, c.text)
		if err == nil {
			t.Errorf("%s is taken", c.text)
			continue
		}
		said := err.Error()
		if at := len(said) - len(c.want); at < 0 || said[at:] != c.want {
			t.Errorf("%s: %q, want %q", c.text, said, c.want)
		}
	}
}

// The error of a setting that not every target has says what to use instead.
func TestParticularSettings(t *testing.T) {
	for _, one := range append(new(Load).all(), new(Attacked).all()...) {
		if one.kinds != 0 && one.instead == "" {
			t.Errorf("--%s: nothing is said", one.name)
		}
	}
}

// Flows and data are the same scenario in TOML and JSON, and the saved scenario contains neither
// their texts nor their values.
func TestFlowsMeanTheSame(t *testing.T) {
	data := filepath.Join(t.TempDir(), "users.csv")
	if err := os.WriteFile(data, []byte("name\nsecret-name\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var kept []string
	for name, text := range map[string]string{
		"shop.toml": "cmd = \"./server\"\ntarget = \"http://127.0.0.1:8080/\"\nrate = 10\n[data.users]\nfile = \"" + data + "\"\norder = \"random\"\n" +
			"[[flow]]\nname = \"buy\"\nweight = 10\nheader = [\"a: flow\", \"C: flow\"]\n[[flow.step]]\nname = \"login\"\ntimeout = \"2s\"\npath = \"/secret-path\"\nbody = \"{{users.name}}\"\nstatus = [200, 201]\ncheck = \"status == 200\"\ntake.token = \"json token\"\nthink = \"1s..2s\"\n" +
			"[[flow.step]]\npath = \"/{{token}}\"\nheader = [\"A: b\"]\n",
		"shop.json": `{"cmd": "./server", "target": "http://127.0.0.1:8080/", "rate": 10, "data": {"users": {"file": "` + data + `", "order": "random"}},
			"flow": [{"name": "buy", "weight": 10, "header": ["a: flow", "C: flow"], "step": [
				{"name": "login", "timeout": "2s", "path": "/secret-path", "body": "{{users.name}}", "status": [200, 201], "check": ["status == 200"], "take": {"token": "json token"}, "think": "1s..2s"},
				{"path": "/{{token}}", "header": "A: b"}]}]}`,
	} {
		s, cmd, err := read(t, name, text)
		if err != nil {
			t.Fatal(err)
		}
		plan, _, err := s.Plan(cmd)
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, strings.Join(plan.Scenario.Words(), "\n"))
		if steps := plan.Load.Traffic.Requests(); len(steps) != 2 || steps[0].Name != "login" || steps[1].Name != "buy-2" || len(steps[0].Statuses) != 2 || steps[0].Timeout != 2*time.Second || steps[1].Timeout != 0 {
			t.Errorf("%s: %+v", name, steps)
		} else if own := steps[1].Header; len(steps[0].Header) != 2 || len(own) != 2 || own[0].Name != "A" || own[1].Name != "C" {
			t.Errorf("%s: headers %+v, %+v", name, steps[0].Header, own)
		}
		for _, value := range plan.Load.Settings {
			if strings.Contains(value, "secret") {
				t.Errorf("%s: the settings have %q", name, value)
			}
		}
	}
	if kept[0] != kept[1] || !strings.Contains(kept[0], "flow=") || !strings.Contains(kept[0], "data=") || strings.Contains(kept[0], "secret") {
		t.Errorf("they are kept as %q and %q", kept[0], kept[1])
	}
	if err := os.WriteFile(data, []byte("name\nother\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, _, err := read(t, "shop.toml", "cmd = \"x\"\ntarget = \"http://127.0.0.1:8080/{{users.name}}\"\n[data.users]\nfile = \""+data+"\"\n")
	if err != nil {
		t.Fatal(err)
	}
	if other := strings.Join(s.Load.Kept("", s.Target).Words(), "\n"); strings.Contains(kept[0], other[strings.Index(other, "data="):]) {
		t.Errorf("other values are kept as the same: %q", other)
	}
}
