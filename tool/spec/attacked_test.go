package spec

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// The flags of an attack, as reports show them, have no secret, but what is needed to give them again.
func TestGivenHidesSecrets(t *testing.T) {
	file := filepath.Join(t.TempDir(), "request")
	if err := os.WriteFile(file, []byte("hush"), 0o600); err != nil {
		t.Fatal(err)
	}
	for given, want := range map[string]string{
		"--env=TOKEN=hush=1":                     "--env=TOKEN=…",
		"--cmd=TOKEN=hush ./server":              "--cmd=…",
		"--header=Authorization: hush":           "--header=…",
		"--body=hush":                            "--body=…",
		"--request=hush":                         "--request=…",
		"--request=hex:68757368":                 "--request=…",
		"--request=@" + file:                     "--request=@" + file,
		"--expect-content=hush":                  "--expect-content=…",
		"--hello=hush":                           "--hello=…",
		"--ready=http://127.0.0.1:1/up?key=hush": "--ready=http://127.0.0.1:1/up?…",
		"--ready=tcp:127.0.0.1:1":                "--ready=tcp:127.0.0.1:1",
		"--bearer-file=" + file:                  "--bearer-file=" + file,
		"--frame=line":                           "--frame=line",
	} {
		cmd := &cobra.Command{Use: "torture"}
		f := new(Attacked)
		f.Define(cmd)
		if err := cmd.ParseFlags([]string{given}); err != nil {
			t.Fatal(err)
		}
		var shown []string
		for _, flag := range f.Given(cmd) {
			shown = append(shown, flag.Name+"="+flag.Value)
		}
		if got := strings.Join(shown, " "); got != want {
			t.Errorf("%s is shown as %s, want %s", given, got, want)
		}
	}
}
