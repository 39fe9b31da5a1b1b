package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hone-go/hone/bench/routes"
)

func TestRatios(t *testing.T) {
	const runs = `goos: linux
BenchmarkClients/GitHub/hone-2   100  50.0 ns/op  0 B/op
BenchmarkClients/GitHub/hone-2   100  60.0 ns/op  0 B/op
BenchmarkClients/GitHub/gin-2    100  100 ns/op  0 B/op
BenchmarkClients/GitHub/gin-2    100  100 ns/op  0 B/op
BenchmarkClients/Static/hone     100  10 ns/op
`
	const want = `| ns, and hone's ratio to | hone | gin |
|---|---|---|
| Clients/GitHub | 55 | 0.55 (0.50–0.60) |
| Clients/Static | 10 | – |
`
	file := filepath.Join(t.TempDir(), "runs.txt")
	if err := os.WriteFile(file, []byte(runs), 0o600); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	if err := run([]string{file}, "", 0, &got); err != nil || got.String() != want {
		t.Errorf("%v, got\n%swant\n%s", err, got.String(), want)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{file}, "", 0, &got); err == nil {
		t.Error("an empty file is no error")
	}
}

// What it measures itself has the contests that were asked for.
func TestMeasures(t *testing.T) {
	var got strings.Builder
	if err := run(nil, "GPlus", 1, &got); err != nil {
		t.Fatal(err)
	}
	for _, c := range routes.Contests() {
		if strings.Contains(c.Name, "GPlus") && !strings.Contains(got.String(), "| "+c.Name+" | ") {
			t.Errorf("nothing of %s", c.Name)
		}
	}
}
