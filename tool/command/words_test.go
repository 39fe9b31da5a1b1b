package command

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/spec"
)

// Other programs' words are answered with ours, where the command has them.
func TestOthersWords(t *testing.T) {
	loader := &cobra.Command{Use: "load", RunE: func(*cobra.Command, []string) error { return nil }}
	new(spec.Load).Define(loader)
	loader.Flags().Int64P("count", "n", 0, "")
	loader.Flags().StringP("scenario", "f", "", "")
	loader.Flags().String("expect", "", "")
	loader.Flags().Bool("json", false, "")
	plain := &cobra.Command{Use: "compare", RunE: loader.RunE}
	for _, c := range []struct {
		cmd  *cobra.Command
		args string
		want string
	}{
		{loader, "--duration 5s", "unknown flag --duration; in hone: --for (-d)"},
		{loader, "--requests 10", "unknown flag --requests; in hone: --count (-n)"},
		{loader, "-duration 5s", `-duration; in hone: --for (-d)`},
		{loader, "-conns 5", "-conns; in hone: --conns"},
		{loader, "-z 5s", "unknown flag -z; in hone: --for (-d)"},
		{loader, "-t 4", "unknown flag -t; in hone: none, as it uses all CPUs (GOMAXPROCS)"},
		{loader, "--vus 4", "unknown flag --vus; in hone: --conns (-c)"},
		{loader, "--ratee 4", "unknown flag --ratee; did you mean"},
		{loader, "-d 5x", `--for "5x": `},
		{plain, "--duration 5s", "unknown flag --duration; see compare --help"},
		{plain, "--threads 5", "unknown flag --threads; see compare --help"},
	} {
		c.cmd.SilenceErrors, c.cmd.SilenceUsage = true, true
		c.cmd.SetFlagErrorFunc(flagError)
		c.cmd.SetArgs(strings.Fields(c.args))
		if said := fmt.Sprint(c.cmd.Execute()); !strings.Contains(said, c.want) {
			t.Errorf("%s: %s, want %q", c.args, said, c.want)
		}
	}
	for word, ours := range others { // each names a flag that there is
		if name, _, _ := strings.Cut(strings.TrimPrefix(ours, "--"), " "); strings.HasPrefix(ours, "--") && loader.Flags().Lookup(strings.Trim(name, ",")) == nil {
			t.Errorf("%s: there is no flag %s", word, ours)
		}
	}
}
