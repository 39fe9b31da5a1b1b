package observe_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestModuleStaysSmall holds go.mod to what the admin side needs, tests included:
// whoever embeds it gets these modules and no part of the command's.
func TestModuleStaysSmall(t *testing.T) {
	var mod struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	edit := exec.Command("go", "mod", "edit", "-json")
	out, err := edit.Output()
	if err != nil {
		t.Fatalf("go mod edit: %v", err)
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		t.Fatal(err)
	}
	var direct, required []string
	for _, r := range mod.Require {
		required = append(required, r.Path)
		if !r.Indirect {
			direct = append(direct, r.Path)
		}
	}
	if want := []string{"github.com/hone-go/hone", "github.com/prometheus/client_golang", "github.com/prometheus/procfs"}; !slices.Equal(direct, want) {
		t.Errorf("go.mod requires %v, want %v; what needs more belongs into tool/", direct, want)
	}
	list := exec.Command("go", "list", "-deps", "-test", "-f", "{{with .Module}}{{.Path}}{{end}}", ".")
	list.Env = append(os.Environ(), "GOWORK=off") // go.mod by itself has to do
	out, err = list.CombinedOutput()
	if err != nil {
		t.Fatalf("without go.work: %v\n%s", err, out)
	}
	for module := range strings.FieldsSeq(string(out)) {
		if module != "github.com/hone-go/hone/observe" && !slices.Contains(required, module) {
			t.Errorf("the package or its tests use %s, which go.mod does not list", module)
		}
	}
}
