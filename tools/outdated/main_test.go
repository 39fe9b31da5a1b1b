package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A dependency that is behind has a reason, and one with a reason is behind.
func TestReport(t *testing.T) {
	const listed = `
{"Path": "example.com/current", "Version": "v1.0.0", "Time": "2026-01-02T00:00:00Z"}
{"Path": "example.com/old", "Version": "v1.0.0", "Time": "2026-01-02T00:00:00Z", "Update": {"Version": "v1.1.0", "Time": "2026-03-04T00:00:00Z"}}`
	for _, c := range []struct {
		held         map[string]string
		printed, err string
	}{
		{
			held:    map[string]string{"example.com/old": "too large"},
			printed: "module           ours    newest  of          reason\nexample.com/old  v1.0.0  v1.1.0  2026-03-04  too large\n2 dependencies, 1 behind\n",
			err:     "<nil>",
		},
		{
			printed: "module           ours    newest  of          reason\nexample.com/old  v1.0.0  v1.1.0  2026-03-04  none\n2 dependencies, 1 behind\n",
			err:     "update example.com/old in every go.mod, or give tools/outdated the reason not to",
		},
		{
			held:    map[string]string{"example.com/old": "too large", "example.com/current": "too new"},
			printed: "module           ours    newest  of          reason\nexample.com/old  v1.0.0  v1.1.0  2026-03-04  too large\n2 dependencies, 1 behind\n",
			err:     "example.com/current is not behind; take its reason out of tools/outdated",
		},
	} {
		var printed strings.Builder
		err := report(strings.NewReader(listed), c.held, &printed)
		if said := fmt.Sprint(err); printed.String() != c.printed || said != c.err {
			t.Errorf("%v:\n%s%s\nwant\n%s%s", c.held, &printed, said, c.printed, c.err)
		}
	}
	if err := report(strings.NewReader("{"), nil, &strings.Builder{}); err == nil {
		t.Error("half an answer is accepted")
	}
}

// What the modules require includes what a tool line brings, and nothing of ours. Every reason is for one of them.
func TestRequired(t *testing.T) {
	all, err := required(filepath.Join("..", "..", "go.work"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"golang.org/x/sys", "github.com/panjf2000/gnet/v2", "honnef.co/go/tools", "github.com/nats-io/nats-server/v2"} {
		if !slices.Contains(all, want) {
			t.Errorf("%s is missing in %v", want, all)
		}
	}
	for _, path := range all {
		if strings.HasPrefix(path, "github.com/hone-go/") {
			t.Errorf("%s is ours", path)
		}
	}
	for path := range heldBack() {
		if !slices.Contains(all, path) {
			t.Errorf("tools/outdated has a reason for %s, which no module requires directly", path)
		}
	}
}
