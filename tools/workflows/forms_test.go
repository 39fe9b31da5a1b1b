package workflows

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"golang.org/x/mod/modfile"
)

// TestDependabot checks that the newest versions are looked for wherever there are dependencies.
func TestDependabot(t *testing.T) {
	var config struct {
		Version int
		Updates []struct {
			Ecosystem   string `yaml:"package-ecosystem"`
			Directory   string
			Directories []string
			Schedule    struct{ Interval string }
			Groups      map[string]struct{ Patterns []string }
		}
	}
	parse(t, "dependabot.yml", &config)
	folders := make(map[string][]string)
	for _, u := range config.Updates {
		folders[u.Ecosystem] = append(u.Directories, u.Directory)
		if u.Schedule.Interval != "weekly" || len(u.Groups) != 1 {
			t.Errorf("%s: %+v, want one group a week", u.Ecosystem, u)
		}
	}
	work, err := modfile.ParseWork("go.work", []byte(read(t, root+"/go.work")), nil)
	if err != nil {
		t.Fatal(err)
	}
	var modules []string
	for _, use := range work.Use {
		modules = append(modules, path.Join("/", use.Path))
	}
	listed := slices.DeleteFunc(folders["gomod"], func(folder string) bool { return folder == "" })
	slices.Sort(modules)
	slices.Sort(listed)
	if !slices.Equal(listed, modules) {
		t.Errorf("dependabot.yml has the modules %q, and go.work %q", listed, modules)
	}
	for ecosystem, files := range map[string][]string{"docker": {"/deploy/Dockerfile"}, "github-actions": {"/ci/action/action.yml", "/.github/workflows/checks.yml"}} {
		for _, file := range files {
			folder := strings.TrimSuffix(path.Dir(file), ".github/workflows")
			if _, err := os.Stat(root + file); err != nil || !slices.Contains(folders[ecosystem], folder) {
				t.Errorf("%s: %q lacks %s, %v", ecosystem, folders[ecosystem], file, err)
			}
		}
	}
}

// TestForms checks what GitHub asks of an issue form; it shows a form that is wrong to nobody.
func TestForms(t *testing.T) {
	files, err := filepath.Glob(root + "/.github/ISSUE_TEMPLATE/*.yml")
	if err != nil || len(files) != 3 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, file := range files {
		if filepath.Base(file) == "config.yml" {
			continue
		}
		var form struct {
			Name, Description string
			Labels            []string
			Body              []struct {
				Type, ID    string
				Attributes  struct{ Label, Description, Value, Render string }
				Validations struct{ Required bool }
			}
		}
		parse(t, "ISSUE_TEMPLATE/"+filepath.Base(file), &form)
		required, seen := false, make(map[string]bool)
		for _, field := range form.Body {
			required = required || field.Validations.Required
			a := field.Attributes
			switch {
			case field.Type == "markdown" && a.Value != "":
			case field.Type == "textarea" && a.Label != "" && a.Description != "" && field.ID != "" && !seen[field.ID]:
				seen[field.ID] = true
			default:
				t.Errorf("%s: GitHub refuses the field %+v", file, field)
			}
		}
		if form.Name == "" || form.Description == "" || !required {
			t.Errorf("%s: no name, no description or no required field in %+v", file, form)
		}
	}
}

// parse reads a file of .github, and refuses keys that into does not have.
func parse(t *testing.T, name string, into any) {
	t.Helper()
	decoder := yaml.NewDecoder(strings.NewReader(read(t, root+"/.github/"+name)))
	decoder.KnownFields(true)
	if err := decoder.Decode(into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}
