package spec

import (
	"cmp"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/load"
)

// given returns a load as the command line sets it.
func given(t *testing.T, target string, flags ...string) *Load {
	t.Helper()
	f := new(Load)
	cmd := &cobra.Command{Use: "load"}
	f.Define(cmd)
	if err := cmd.ParseFlags(flags); err != nil {
		t.Fatal(err)
	}
	f.Plan.Requests = 77 // a flag of hone load alone
	if err := f.Complete("load", target); err != nil {
		t.Fatal(err)
	}
	return f
}

// The files of a carried load are bounded together, in bytes as the user counts them.
func TestCarriedFilesAreBounded(t *testing.T) {
	dir := t.TempDir()
	body, sizes := filepath.Join(dir, "body"), filepath.Join(dir, "sizes")
	if err := os.WriteFile(sizes, []byte("10\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		body int64
		want string // empty: it is sent
	}{
		{36_700_157, ""},
		{36_700_158, "load: the files of the load have 36700161 bytes together, and agents take 36700160 (35 MiB) at most; use smaller files"},
	} {
		if err := errors.Join(os.WriteFile(body, nil, 0o600), os.Truncate(body, c.body)); err != nil {
			t.Fatal(err)
		}
		f := given(t, "127.0.0.1:1", "--expect-content", "@"+body, "--size", "file:@"+sizes)
		if _, err := f.Carry("127.0.0.1:1"); fmt.Sprint(err) != cmp.Or(c.want, "<nil>") {
			t.Errorf("%d bytes: %v", c.body, err)
		}
	}
}

// A received load reads no file of this machine, whatever it names.
func TestCarriedLoadReadsNoFile(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, sent := range []string{
		`{"Target":"127.0.0.1:1","Settings":[{"Name":"request","Values":["@SECRET"]}]}`,
		`{"Target":"127.0.0.1:1","Settings":[{"Name":"expect-content","Values":["@SECRET"]}]}`,
		`{"Target":"127.0.0.1:1","Settings":[{"Name":"size","Values":["file:@SECRET"]}]}`,
		`{"Target":"http://127.0.0.1:1","Settings":[{"Name":"body","Values":["@SECRET"]}]}`,
		`{"Target":"https://127.0.0.1:1","Settings":[{"Name":"cacert","Values":["SECRET"]}]}`,
		`{"Target":"https://127.0.0.1:1","Settings":[{"Name":"cert","Values":["SECRET"]},{"Name":"key","Values":["SECRET"]}],"Files":{"x":""}}`,
		`{"Target":"http://127.0.0.1:1","Settings":[{"Name":"data","Table":{"users":{"file":"SECRET"}}}]}`,
		`{"Target":"http://127.0.0.1:1","Settings":[{"Name":"flow","Table":[{"step":[{"path":"/","body":"@SECRET"}]}]}]}`,
		`{"Target":"http://127.0.0.1:1","Settings":[{"Name":"conns","Table":[{"step":[{"path":"/"}]}]}]}`,
		`{"Target":"http://127.0.0.1:1","Settings":[{"Name":"data","Values":["users=SECRET"]}]}`,
		`{"Target":"http://127.0.0.1:1","Settings":[{"Name":"basic-file","Values":["SECRET"]}]}`,
		`{"Target":"http://127.0.0.1:1","Settings":[{"Name":"bearer-file","Values":["SECRET"]}]}`,
		`{"Target":"http://127.0.0.1:1","Settings":[{"Name":"data","Values":["u=SECRET"]}]}`,
		`{"Target":"127.0.0.1:1","Settings":[{"Name":"nowhere","Values":["x"]}]}`,
		`[]`,
	} {
		if plan, err := FromCarried([]byte(strings.ReplaceAll(sent, "SECRET", secret))); err == nil || strings.Contains(sent, "SECRET") && !errors.Is(err, errNotSent) {
			t.Errorf("%s: %+v, %v", sent, plan, err)
		}
	}
}

// Flags read files only through files: what another function reads would be missing on other
// machines, or would be read there.
func TestOnlyFilesReads(t *testing.T) {
	names, err := filepath.Glob("*.go")
	if err != nil || len(names) < 5 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || name == "carry.go" || name == "scenario.go" {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range parsed.Imports {
			if path.Path.Value == `"os"` || path.Path.Value == `"io/fs"` {
				t.Errorf("%s imports %s; read what a flag names by files.read", name, path.Path.Value)
			}
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "tls.LoadX509KeyPair") {
			t.Errorf("%s reads a certificate; use files.pair", name)
		}
	}
}

// preview returns what a plan's first sessions send.
func preview(p load.Plan) string {
	var out strings.Builder
	if err := p.WriteRequests(&out, 20); err != nil {
		return err.Error()
	}
	return out.String()
}
