package table

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
)

// releases are the days on which versions were released, as in 2026-01-02, by module, program or Go, and by
// version. versions.json has those that stored runs are of, and those that the repository uses now.
type releases map[string]map[string]string

const (
	versionsFile = "versions.json"
	goName       = "Go"
)

// release is a version of somebody else's code; an empty one was not recorded.
type release struct{ name, version string }

// release returns the code that a server runs on, and false if that is this repository's.
func (s Server) release() (release, bool) {
	name := cmp.Or(s.Module, s.Program)
	if strings.HasPrefix(s.Version, "go") {
		name = goName
	}
	return release{name, s.Version}, s.Version != "" && !s.Ours()
}

// measured returns what the stored runs are of, and where each was measured.
func (s *Stored) measured() map[release][]string {
	all := make(map[release][]string)
	add := func(servers []Server, where string) {
		for _, server := range servers {
			if r, others := server.release(); others && !slices.Contains(all[r], where) {
				all[r] = append(all[r], where)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.rows)) {
		add(s.rows[name].Servers, name)
	}
	for _, name := range slices.Sorted(maps.Keys(s.tortures)) {
		add(s.tortures[name].Servers, name)
	}
	return all
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
			name := cmp.Or(m[1], m[3], goName)
			versions[name] = cmp.Or(m[2], m[4], m[5])
			versions[strings.TrimSuffix(name, "/cmd/"+filepath.Base(name))] = versions[name]
		}
	}
	return versions, nil
}

// Behind names the stored versions that are not those in use, and the rows in which they were measured.
func (s *Stored) Behind() map[string][]string {
	behind := make(map[string][]string)
	for r, where := range s.measured() {
		if now := s.used[r.name]; now != "" && now != r.version {
			behind[fmt.Sprintf("%s %s, not %s", r.name, r.version, now)] = where
		}
	}
	return behind
}

// Current reports whether a row is stored, valid, of the versions in use, and of hone's packages as they are now.
func (s *Stored) Current(ctx context.Context, name, dir string) bool {
	r := s.rows[name]
	for _, where := range s.Behind() {
		if slices.Contains(where, name) {
			return false
		}
	}
	return r != nil && r.Valid && !r.Changed(ctx, dir)
}

// versions is a table of what stored runs are of, and of what is newer.
func (s *Stored) versions() string {
	rows := [][]string{{"measured", "version", "released", "in use since"}}
	measured := s.measured()
	for _, r := range slices.SortedFunc(maps.Keys(measured), func(a, b release) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.version, b.version))
	}) {
		newer := ""
		if now := s.used[r.name]; now != "" && now != r.version {
			newer = now + " of " + s.days[r.name][now]
		}
		rows = append(rows, []string{r.name, r.version, cmp.Or(s.days[r.name][r.version], "not recorded"), newer})
	}
	return markdown(rows)
}

// span returns the days of the oldest and the newest version of others' code.
func (s *Stored) span(servers []Server) string {
	var all []string
	for _, server := range servers {
		if r, others := server.release(); others {
			all = append(all, s.days[r.name][r.version])
		}
	}
	if len(all) == 0 {
		return none
	}
	return slices.Min(all) + " to " + slices.Max(all)
}

// named returns every version that needs a day: those that stored runs are of, and those of the same code
// that the repository uses now.
func (s *Stored) named() map[release]bool {
	all := make(map[release]bool)
	for r := range s.measured() {
		all[r] = true
		if now := s.used[r.name]; now != "" {
			all[release{r.name, now}] = true
		}
	}
	return all
}

// Refresh brings versions.json in the folder results up to date. It looks up the days of Go and of modules
// that are missing. Those of programs come from their change logs, by hand.
func (s *Stored) Refresh(ctx context.Context, results string) error {
	fresh := make(releases)
	for r := range s.named() {
		day := s.days[r.name][r.version]
		if day == "" && (r.name == goName || strings.Contains(r.name, ".")) {
			var err error
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
	return errors.Join(err, os.WriteFile(filepath.Join(results, versionsFile), append(text, '\n'), 0o644))
}

// day asks the module cache, or else the module proxy.
func (r release) day(ctx context.Context) (string, error) {
	module := r.name + "@" + r.version
	if r.name == goName {
		module = "golang.org/toolchain@v0.0.1-" + r.version + ".linux-amd64"
	}
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", `{{.Time.UTC.Format "2006-01-02"}}`, module)
	cmd.Dir, cmd.Stderr = os.TempDir(), os.Stderr // outside of a module nothing else is looked up
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go list -m %s: %w", module, err)
	}
	return strings.TrimSpace(string(out)), nil
}
