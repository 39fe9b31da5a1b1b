package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// The notes are the version's section of the changelog. A version without one is not released.
func TestNotes(t *testing.T) {
	changelog := []byte("# Changelog\n\n## 0.2.1\n## [0.2.0] - 2026-01-02\n\n- second\n\n## 0.1.0\n\n### wire\n\n- first\n")
	for version, want := range map[string]string{
		"v0.1.0": "# hone v0.1.0\n\n### wire\n\n- first\n", "v0.2.0": "# hone v0.2.0\n\n- second\n",
	} {
		if got, err := notes(changelog, version); string(got) != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", version, got, err, want)
		}
	}
	for version, want := range map[string]string{"v0.1.1": "has no section", "v0.1": "has no section", "v0.2.1": "has an empty section"} {
		if got, err := notes(changelog, version); !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: %q, %v; want an error: %s", version, got, err, want)
		}
	}
}

// The files beside the binaries name what is in them. The test's own program stands for a binary.
func TestFinish(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	changelog := filepath.Join(t.TempDir(), "CHANGELOG.md")
	for name, content := range map[string][]byte{filepath.Join(dir, "a"): program, changelog: []byte("\n## 0.1.0\n- new\n")} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := finish(dir, "v0.1.0", runtime.Version(), []string{"a"}, changelog); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "sbom.cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var list bill
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	has := map[string]bool{}
	for _, c := range list.Components {
		has[c.Name] = strings.HasPrefix(c.URL, "pkg:golang/"+c.Name+"@") && len(c.Properties) == 1
	}
	if !has["std"] || !has["golang.org/x/mod"] || list.Format != "CycloneDX" {
		t.Errorf("the SBOM is %s", text)
	}
	if _, err := exec.LookPath("sha256sum"); err == nil {
		check := exec.Command("sha256sum", "--strict", "-c", "SHA256SUMS")
		check.Dir = dir
		if out, err := check.CombinedOutput(); err != nil || strings.Count(string(out), ": OK") != 3 {
			t.Errorf("%v\n%s", err, out)
		}
	}
	if err := finish(dir, "v0.1.0", runtime.Version(), []string{"sbom.cdx.json"}, changelog); err == nil {
		t.Error("a file that is not a Go program has an SBOM")
	}
	if said := fmt.Sprint(finish(dir, "v0.1.0", "go1.999.1", []string{"a"}, changelog)); !strings.HasPrefix(said, "a is of "+runtime.Version()+"; ") {
		t.Errorf("a binary of an older Go than go.work's is released: %s", said)
	}
}

// A release is not built with another Go than go.work's: here one that the go command can neither be nor get.
func TestToolchain(t *testing.T) {
	t.Setenv("GOPROXY", "off")
	t.Setenv("GOTOOLCHAIN", "local")
	for work, want := range map[string]string{
		"go 1.26.0\n":                                         "names no toolchain",
		"go 1.26.0\ntoolchain go1.999.1\n":                    "releases are built with go1.999.1",
		"go 1.26.0\ntoolchain " + runtime.Version() + "\n":    "",
		"go 1.26.0\nthe toolchain has no lines like this one": "unknown directive",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "go.work"), []byte(work), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := toolchainOf(t.Context(), dir)
		if want == "" {
			if got != runtime.Version() || err != nil {
				t.Errorf("%q: %q, %v", work, got, err)
			}
		} else if said := fmt.Sprint(err); !strings.Contains(said, want) {
			t.Errorf("%q: %q, %s; want %q", work, got, said, want)
		}
	}
	if err := checkGo("the go command", "go1.26.8", "go1.26.11"); err == nil {
		t.Error("go1.26.8 is no older than go1.26.11")
	}
	if err := errors.Join(checkGo("the go command", "go1.26.11", "go1.26.11"), checkGo("the go command", "go1.27.0", "go1.26.11")); err != nil {
		t.Error(err)
	}
}
