package spec

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func TestMain(m *testing.M) {
	flag.Bool("update", false, "rewrite what command lines mean with what was seen")
	os.Exit(m.Run())
}

// TestSettings states what command lines mean: what a run keeps, where the target is, and what is sent
// first, by this process and by an agent that has none of the files; or why they are refused. Run it
// with -update after a change, and look at what has changed.
func TestSettings(t *testing.T) {
	golden, err := filepath.Abs(filepath.Join("testdata", "settings.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	all, err := txtar.ParseFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	here, nothing := t.TempDir(), t.TempDir()
	t.Chdir(here)
	for _, f := range append(all.Files, txtar.File{Name: "bytes", Data: []byte("a\xff\xfeb")}) {
		if err := os.WriteFile(f.Name, f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var seen strings.Builder
	for line := range strings.Lines(string(all.Comment)) {
		if !strings.HasPrefix(line, "  ") {
			seen.WriteString(line)
		}
		if words, ok := strings.CutPrefix(line, "> "); ok {
			fmt.Fprintf(&seen, "  %s\n", strings.Join(meaning(t, here, nothing, strings.Split(strings.TrimSpace(words), "  ")), "\n  "))
		}
	}
	if flag.Lookup("update").Value.String() == "true" {
		all.Comment = []byte(seen.String())
		if err := os.WriteFile(golden, txtar.Format(all), 0o666); err != nil {
			t.Fatal(err)
		}
	} else if seen.String() != string(all.Comment) {
		t.Errorf("command lines mean\n%s", seen.String())
	}
}

// meaning describes a load with that target and flags; -f reads a file.
func meaning(t *testing.T, here, nothing string, words []string) []string {
	f, cmd := new(Load), &cobra.Command{Use: "load"}
	f.Define(cmd)
	file := cmd.Flags().StringP("scenario", "f", "", "")
	err := cmd.ParseFlags(words[1:])
	if invalid := new(pflag.InvalidValueError); errors.As(err, &invalid) {
		err = errors.New(WhyInvalid(invalid))
	}
	if err == nil && *file != "" {
		err = ReadFile(cmd, *file)
	}
	if err == nil {
		err = f.Complete("load", words[0])
	}
	if err != nil {
		return []string{"refused: " + err.Error()}
	}
	said := []string{strings.Join(f.Kept("", words[0]).Words(), ", ")}
	sent := preview(f.Plan)
	said = append(said, fmt.Sprintf("%.400q", sent))
	if f.Plan.Traffic != nil {
		for _, r := range f.Plan.Traffic.Requests() {
			said = append(said, fmt.Sprintf("step %q: status %v, timeout %v", r.Name, r.Statuses, r.Timeout))
		}
	}
	job, err := f.Carry(words[0])
	if err != nil {
		return append(said, "not carried: "+err.Error())
	}
	t.Chdir(nothing)
	defer t.Chdir(here)
	plan, err := FromCarried(job)
	if err != nil || preview(plan) != sent {
		return append(said, fmt.Sprintf("an agent would send %q, %v", preview(plan), err))
	}
	if plan.Sizes, plan.Traffic = f.Plan.Sizes, f.Plan.Traffic; !reflect.DeepEqual(plan, f.Plan) { // these have functions
		said = append(said, fmt.Sprintf("an agent's plan is %+v", plan))
	}
	return said
}
