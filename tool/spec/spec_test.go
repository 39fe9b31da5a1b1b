package spec

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
)

// read fills a subject from a file of that name.
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
		s, cmd, err := read(t, name, text)
		if err != nil {
			t.Fatal(err)
		}
		if s.Load.Plan.Rate != 12e6 || s.Target != "http://127.0.0.1:8080/users" || len(s.Load.targetFlags.header.texts) != 2 {
			t.Errorf("%s: %+v", name, s)
		}
		kept = append(kept, Kept(cmd, "hello", s.Target).Text)
	}
	if kept[0] != kept[1] || kept[0] == "" {
		t.Errorf("they are kept as %q and %q", kept[0], kept[1])
	}
}

// What a file cannot say is refused with its name and its key.
func TestFilesRefused(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"a.json", `{"conn": 5}`, `: there is no key "conn"; did you mean conns?`},
		{"a.json", `[5]`, ": json: cannot unmarshal array into Go value of type map[string]interface {}; write one JSON object"},
		{"a.json", `{"conns": {}}`, ": conns: it must be a text, a number, true or false, or a list of such"},
		{"a.toml", "conns = 5\nagainst = \"main\"", `: there is no key "against"; see hone bench --help`},
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

// Every flag that not all targets have is one, and says what to do instead.
func TestParticularFlags(t *testing.T) {
	cmd := &cobra.Command{}
	new(Load).Define(cmd)
	for _, o := range particular() {
		if cmd.Flags().Lookup(o.flag) == nil || len(o.kinds) == 0 || o.instead == "" {
			t.Errorf("%+v", o)
		}
	}
}
