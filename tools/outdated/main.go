// Command outdated lists the dependencies of all modules that have a newer version, with the reason where one is
// held back on purpose. It fails when there is none.
//
//	go run ./tools/outdated
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/mod/modfile"
)

// heldBack are the dependencies that stay behind, and why.
func heldBack() map[string]string {
	return map[string]string{
		"github.com/prometheus/common": "client_golang requires this version; a newer one would be required of every program that embeds observe, and v0.74.0 brings go-abnf along",
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "outdated:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, stdout io.Writer) error {
	file, err := exec.CommandContext(ctx, "go", "env", "GOWORK").Output()
	if err != nil {
		return fmt.Errorf("go env GOWORK: %w", err)
	}
	paths, err := required(strings.TrimSpace(string(file)))
	if err != nil {
		return err
	}
	list := exec.CommandContext(ctx, "go", append([]string{"list", "-m", "-u", "-json"}, paths...)...)
	var stderr bytes.Buffer
	list.Stderr = &stderr
	out, err := list.Output()
	if err != nil {
		return fmt.Errorf("go list -m -u: %w: %s", err, stderr.Bytes())
	}
	return report(bytes.NewReader(out), heldBack(), stdout)
}

// required are the modules that those of a workspace require directly, or for a tool.
func required(workFile string) ([]string, error) {
	text, err := os.ReadFile(workFile)
	if err != nil {
		return nil, fmt.Errorf("go.work: %w; run this inside the repository", err)
	}
	work, err := modfile.ParseWork(workFile, text, nil)
	if err != nil {
		return nil, err
	}
	all := map[string]bool{}
	for _, use := range work.Use {
		name := filepath.Join(filepath.Dir(workFile), use.Path, "go.mod")
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		file, err := modfile.Parse(name, text, nil)
		if err != nil {
			return nil, err
		}
		for _, r := range file.Require {
			local := slices.ContainsFunc(file.Replace, func(other *modfile.Replace) bool { return other.Old.Path == r.Mod.Path })
			tool := slices.ContainsFunc(file.Tool, func(t *modfile.Tool) bool { return t.Path == r.Mod.Path || strings.HasPrefix(t.Path, r.Mod.Path+"/") })
			if !local && (!r.Indirect || tool) {
				all[r.Mod.Path] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all)), nil
}

// report prints those modules of go list -m -u -json that are behind, and why.
func report(listed io.Reader, held map[string]string, stdout io.Writer) error {
	type version struct {
		Version string
		Time    time.Time
	}
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	count, behind := 0, map[string]bool{}
	var unexplained []string
	for modules := json.NewDecoder(listed); ; count++ {
		var m struct {
			Path string
			version
			Update *version
		}
		if err := modules.Decode(&m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("go list -m -u -json: %w", err)
		}
		if m.Update == nil {
			continue
		}
		if len(behind) == 0 {
			fmt.Fprintln(table, "module\tours\tnewest\tof\treason")
		}
		behind[m.Path] = true
		reason, known := held[m.Path]
		if !known {
			reason, unexplained = "none", append(unexplained, m.Path)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", m.Path, m.Version, m.Update.Version, m.Update.Time.Format(time.DateOnly), reason)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%d dependencies, %d behind\n", count, len(behind))
	for _, path := range slices.Sorted(maps.Keys(held)) {
		if !behind[path] {
			return fmt.Errorf("%s is not behind; take its reason out of tools/outdated", path)
		}
	}
	if unexplained != nil {
		return fmt.Errorf("update %s in every go.mod, or give tools/outdated the reason not to", strings.Join(unexplained, ", "))
	}
	return nil
}
