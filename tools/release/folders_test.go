package main

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestReleaseCommit makes the commit of a release, and builds it before anybody can download its
// modules, as the workflow of a tag does.
func TestReleaseCommit(t *testing.T) {
	if os.Getenv("HONE_TEST_RELEASE") == "" {
		t.Skip("builds the commands anew; make release-test runs it")
	}
	const version = "v0.9.0-test"
	clone := filepath.Join(t.TempDir(), "hone")
	output(t, "", nil, "git", "clone", "-q", output(t, "", nil, "git", "rev-parse", "--show-toplevel"), clone)
	t.Chdir(clone)
	t.Setenv("GOPROXY", "off")
	var said strings.Builder
	if err := run(t.Context(), []string{version}, &said); err != nil {
		t.Fatal(err)
	}
	first, last, _ := strings.Cut(said.String(), "git push origin HEAD observe/"+version+" ")
	if !strings.Contains(first, "git tag tool/"+version+"\n") || !strings.Contains(last, "git push origin "+version+" ") {
		t.Errorf("says %s", said.String())
	}
	platform := runtime.GOOS + "/" + runtime.GOARCH
	if err := run(t.Context(), []string{"-binaries", "dist", "-platforms", platform, version}, io.Discard); err == nil {
		t.Error("a version without notes is built")
	}
	if err := os.WriteFile("CHANGELOG.md", []byte("## "+version[1:]+"\n\n- new\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	output(t, "", nil, "git", "-c", "user.name=x", "-c", "user.email=x@example.org", "commit", "-q", "-a", "-m", "Release")
	output(t, "", nil, "go", "list", "-deps", "./...", "./gateway/...", "./gateway/relay/...", "./tool/...", "./bench/...", "./compat/...", "./deploy/...", "./tools/...")
	if err := run(t.Context(), []string{"-binaries", "dist", "-platforms", platform, version}, io.Discard); err != nil {
		t.Fatal(err)
	}
	notes, err := os.ReadFile(filepath.Join("dist", "NOTES.md"))
	if err != nil || string(notes) != "# hone "+version+"\n\n- new\n" {
		t.Errorf("the notes are %q, %v", notes, err)
	}
	hone := filepath.Join("dist", strings.Join([]string{"hone", version, runtime.GOOS, runtime.GOARCH}, "_"))
	if said := output(t, "", nil, "./"+hone, "version"); !strings.Contains(said, version) {
		t.Errorf("hone version says %q", said)
	}
}
