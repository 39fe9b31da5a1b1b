package report

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/hone-go/hone/bench/fleet"
)

// versionsFile has the days on which versions were released: those that stored runs are of, and those
// that the repository uses now.
const versionsFile = "versions.json"

// releases are days as in 2026-01-02, by module, program or Go, and by version.
type releases map[string]map[string]string

// goName is Go's name in releases.
const goName = "Go"

// release is a version of somebody else's code; an empty one was not recorded.
type release struct{ name, version string }

// releaseOf returns the code that a server runs on, and false if that is this repository's.
func releaseOf(e fleet.Entry) (release, bool) {
	name := cmp.Or(e.Module, e.Program)
	if strings.HasPrefix(e.Version, "go") {
		name = goName
	}
	return release{name, e.Version}, !e.Ours() && !strings.HasPrefix(e.Module, "github.com/hone-go/hone")
}

func readReleases(results string) (days releases, err error) {
	text, err := os.ReadFile(filepath.Join(results, versionsFile))
	if err == nil {
		err = json.Unmarshal(text, &days)
	}
	return days, err
}

// measured returns what the stored runs in these files are of, without repetitions.
func measured(results string, files []string) ([]release, error) {
	var all []release
	for _, file := range files {
		var run struct {
			Servers   []fleet.Entry
			Settings  Settings
			Scenarios []Scenario
		}
		text, err := os.ReadFile(filepath.Join(results, file))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil {
			err = json.Unmarshal(text, &run)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, e := range run.Servers {
			if r, others := releaseOf(e); others {
				all = append(all, r)
			}
		}
		if slices.ContainsFunc(run.Scenarios, func(s Scenario) bool { return s.Name == wrkScenario }) {
			all = append(all, release{"wrk", run.Settings.Wrk})
		}
	}
	slices.SortFunc(all, func(a, b release) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.version, b.version)) })
	return slices.Compact(all), nil
}

// used returns the versions that the repository uses now, as go.mod, the Makefile and go.work have them.
func used(results string) (map[string]string, error) {
	uses := regexp.MustCompile(`(?m)^(?:\t|require )(\S+) (v\S+)|go install (\S+)@(v\S+)|^toolchain (go\S+)`)
	versions := make(map[string]string)
	for _, file := range []string{"../go.mod", "../../Makefile", "../../go.work"} {
		text, err := os.ReadFile(filepath.Join(results, file))
		if err != nil {
			return nil, err
		}
		for _, m := range uses.FindAllStringSubmatch(string(text), -1) {
			versions[cmp.Or(m[1], m[3], goName)] = cmp.Or(m[2], m[4], m[5])
		}
	}
	return versions, nil
}

// versions returns a table of what stored runs are of, and of what is newer.
func versions(results string, files []string) (string, error) {
	all, err := measured(results, files)
	days, errDays := readReleases(results)
	now, errNow := used(results)
	if err := errors.Join(err, errDays, errNow); err != nil {
		return "", err
	}
	rows := [][]string{{"measured", "version", "released", "newer version in use"}}
	for _, r := range all {
		day, newer := days[r.name][r.version], ""
		if today := days[r.name][now[r.name]]; today > day {
			newer = now[r.name] + " of " + today
		}
		const unknown = "not recorded"
		rows = append(rows, []string{r.name, cmp.Or(r.version, unknown), cmp.Or(day, unknown), newer})
	}
	if !slices.ContainsFunc(rows[1:], func(row []string) bool { return row[3] != "" }) {
		for i := range rows {
			rows[i] = rows[i][:3]
		}
	}
	return markdown(rows), nil
}

// span returns the days of the oldest and the newest version of others' code.
func (days releases) span(servers []fleet.Entry) string {
	var all []string
	for _, e := range servers {
		if r, others := releaseOf(e); others {
			all = append(all, days[r.name][r.version])
		}
	}
	return slices.Min(all) + " to " + slices.Max(all)
}

// named returns every version that needs a day: those that stored runs are of, and those of the same
// code that the repository uses now.
func named(results string) ([]release, error) {
	all, err := measured(results, slices.Collect(maps.Keys(stored)))
	now, errNow := used(results)
	for _, r := range all {
		if v := now[r.name]; v != "" && !slices.Contains(all, release{r.name, v}) {
			all = append(all, release{r.name, v})
		}
	}
	return all, errors.Join(err, errNow)
}

// Refresh brings versions.json up to date. It looks up the days of Go and of modules that are missing.
// Those of programs come from their change logs, by hand.
func Refresh(ctx context.Context, results string) error {
	all, err := named(results)
	old, errOld := readReleases(results)
	if err := errors.Join(err, errOld); err != nil {
		return err
	}
	fresh := make(releases)
	for _, r := range all {
		day := old[r.name][r.version]
		if day == "" && (r.name == goName || strings.Contains(r.name, ".")) {
			if day, err = r.day(ctx); err != nil {
				return err
			}
		}
		if day != "" {
			if fresh[r.name] == nil {
				fresh[r.name] = make(map[string]string)
			}
			fresh[r.name][r.version] = day
		}
	}
	text, err := json.MarshalIndent(fresh, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(results, versionsFile), append(text, '\n'), 0o644)
}

// day asks the module cache, or else the module proxy.
func (r release) day(ctx context.Context) (string, error) {
	module := r.name + "@" + r.version
	if r.name == goName {
		module = "golang.org/toolchain@v0.0.1-" + r.version + ".linux-amd64"
	}
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", `{{.Time.Format "2006-01-02"}}`, module)
	cmd.Env, cmd.Stderr = append(cmd.Environ(), "GOWORK=off"), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go list -m %s: %w", module, err)
	}
	return strings.TrimSpace(string(out)), nil
}
