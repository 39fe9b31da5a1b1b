package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const before = `module github.com/hone-go/hone/tool

go 1.26.0

require (
	github.com/hone-go/hone v0.0.0
	github.com/hone-go/hone/observe v0.0.0-00010101000000-000000000000
	golang.org/x/perf v0.0.0-20260908200009-22c9c6c9d4da
)

replace (
	github.com/hone-go/hone => ../
	github.com/hone-go/hone/observe => ../observe
)
`

func TestVersion(t *testing.T) {
	got, err := withVersion([]byte(before), "v0.9.0")
	want := `module github.com/hone-go/hone/tool

go 1.26.0

require (
	github.com/hone-go/hone v0.9.0
	github.com/hone-go/hone/observe v0.9.0
	golang.org/x/perf v0.0.0-20260908200009-22c9c6c9d4da
)
`
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, got)
	}
	if got, err := withVersion([]byte(before+"\nreplace golang.org/x/perf => ../perf\n"), "v0.9.0"); err == nil {
		t.Errorf("a replacement of others' is published:\n%s", got)
	}
	for _, args := range [][]string{{}, {"0.9.0"}, {"v0.9"}, {"v2.0.0"}, {"v0.9.0", "more"}} {
		if err := run(t.Context(), args, io.Discard); err == nil {
			t.Errorf("%q is a version", args)
		}
	}
}

// What is published works for those who do not have the repository: all commands are
// installed from a file-system proxy with an empty module cache, and every example is built
// as a program of its own. go mod tidy finds nothing to do in the repository.
func TestPublished(t *testing.T) {
	if os.Getenv("HONE_TEST_RELEASE") == "" {
		t.Skip("builds everything anew, which takes minutes; make release-test runs it")
	}
	const version = "v0.9.0-test"
	top := output(t, "", nil, "git", "rev-parse", "--show-toplevel")
	for _, folder := range append(published(), "bench", "compat", "deploy", "tools") {
		if diff := output(t, filepath.Join(top, folder), []string{"GOWORK=off"}, "go", "mod", "tidy", "-diff"); diff != "" {
			t.Errorf("go mod tidy changes %s/go.mod:\n%s", folder, diff)
		}
	}
	proxy, bin, cache := t.TempDir(), t.TempDir(), t.TempDir()
	if err := run(t.Context(), []string{"-proxy", proxy, version}, io.Discard); err != nil {
		t.Fatal(err)
	}
	// Other modules come from what this machine has downloaded.
	downloads := filepath.Join(output(t, "", nil, "go", "env", "GOMODCACHE"), "cache", "download")
	linkOthers(t, downloads, proxy)
	outside := []string{
		"GOPROXY=file://" + filepath.ToSlash(proxy), "GOSUMDB=off", "GOWORK=off", "GONOPROXY=", "GOPRIVATE=",
		"GOMODCACHE=" + cache, "GOBIN=" + bin, "GOFLAGS=-mod=mod -modcacherw -trimpath",
	}
	dir := t.TempDir()
	output(t, dir, outside, "go", "install", root+"/tool/cmd/hone@"+version)
	output(t, dir, outside, "go", "install", root+"/gateway/cmd/honed@"+version)
	output(t, dir, outside, "go", "install", root+"/gateway/relay/cmd/honed-relay@"+version)
	output(t, dir, outside, "go", "install", root+"/articles/1-server/buffered@"+version)
	if said := output(t, dir, nil, filepath.Join(bin, "hone"), "version"); !strings.Contains(said, version) {
		t.Errorf("hone version says %q", said)
	}
	output(t, dir, nil, filepath.Join(bin, "honed"), "--help")
	var examples []string
	for _, pattern := range []string{"examples/*/main.go", "examples/*/*/main.go", "observe/examples/*/main.go"} {
		found, err := filepath.Glob(filepath.Join(top, filepath.FromSlash(pattern)))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d examples, %v", pattern, len(found), err)
		}
		examples = append(examples, found...)
	}
	// build builds the program in a folder, as a module that gets those of ours that it imports.
	build := func(folder, name string) {
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		get := []string{"get", root + "@" + version}
		for _, other := range []string{"/observe", "/gateway"} {
			if slices.ContainsFunc(files, func(file string) bool {
				text, err := os.ReadFile(file)
				return err == nil && strings.Contains(string(text), `"`+root+other+`"`)
			}) {
				get = append(get, root+other+"@"+version)
			}
		}
		output(t, folder, outside, "go", "mod", "init", "example.com/program")
		output(t, folder, outside, "go", get...)
		output(t, folder, outside, "go", "build", "-o", filepath.Join(bin, name), ".")
	}
	for i, example := range examples {
		program := t.TempDir()
		if err := os.CopyFS(program, os.DirFS(filepath.Dir(example))); err != nil {
			t.Fatal(err)
		}
		build(program, fmt.Sprintf("example%d", i+1))
	}
	page, err := os.ReadFile(filepath.Join(top, "docs", "start.md"))
	if err != nil {
		t.Fatal(err)
	}
	for i, program := range programs(string(page)) {
		folder := t.TempDir()
		if err := os.WriteFile(filepath.Join(folder, "main.go"), []byte(program), 0o644); err != nil {
			t.Fatal(err)
		}
		build(folder, fmt.Sprintf("start%d", i+1))
	}
	if built, err := os.ReadDir(bin); err != nil || len(built) < 18 {
		t.Errorf("%d programs built, %v", len(built), err)
	}
}

// linkOthers puts what this machine has downloaded into the proxy, beside our modules.
func linkOthers(t *testing.T, downloads, proxy string) {
	t.Helper()
	const shared = "github.com" // with our modules
	for _, folder := range []string{"", shared} {
		entries, err := os.ReadDir(filepath.Join(downloads, folder))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			to := filepath.Join(proxy, folder, e.Name())
			if _, err := os.Stat(to); err == nil {
				continue // shared, or ours
			}
			if err := os.Symlink(filepath.Join(downloads, folder, e.Name()), to); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// programs are a page's blocks of Go that are whole programs.
func programs(page string) (all []string) {
	for _, block := range strings.Split(page, "```go\n")[1:] {
		if program, _, found := strings.Cut(block, "\n```"); found && strings.HasPrefix(program, "package main\n") {
			all = append(all, program+"\n")
		}
	}
	return all
}

// output runs a command and returns what it prints on standard output.
func output(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(cmd.Environ(), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s in %s: %v\n%s%s", name, strings.Join(args, " "), dir, err, out, stderr.String())
	}
	return strings.TrimSpace(string(out))
}
