package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"go/version"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// platforms are those that binaries are made for.
var platforms = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64"}

// commands are the binaries of a release, with the folder of their module and their package in it.
var commands = []struct{ name, module, folder string }{
	{"hone", "tool", "./cmd/hone"},
	{"honed", "gateway", "./cmd/honed"},
	{"honed-relay", "gateway/relay", "./cmd/honed-relay"},
}

// writeBinaries builds the last commit for some platforms, and writes the binaries, their checksums,
// an SBOM and the release notes into a folder. The bytes depend only on the commit, which names the
// version of Go, and the version: neither on the folder nor on the machine.
func writeBinaries(ctx context.Context, dir, into, release string, platforms []string) error {
	work, err := os.MkdirTemp("", "hone-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := archive(ctx, dir, work); err != nil {
		return err
	}
	toolchain, err := toolchainOf(ctx, work)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(into, 0o755); err != nil {
		return err
	}
	into, err = filepath.Abs(into)
	if err != nil {
		return err
	}
	if err := prepare(work, release); err != nil {
		return err
	}
	var names []string
	for _, platform := range platforms {
		system, processor, _ := strings.Cut(platform, "/")
		for _, c := range commands {
			name := strings.Join([]string{c.name, release, system, processor}, "_")
			if system == "windows" {
				name += ".exe"
			}
			build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false",
				"-ldflags=-s -w -buildid= -X main.release="+release, "-o", filepath.Join(into, name), c.folder)
			build.Dir = filepath.Join(work, c.module)
			build.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+processor, "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=", "GOAMD64=v1", "GOARM64=v8.0", "GOTOOLCHAIN="+toolchain)
			if out, err := build.CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w: %s", name, err, out)
			}
			names = append(names, name)
		}
	}
	return finish(into, release, toolchain, names, filepath.Join(work, "CHANGELOG.md"))
}

// toolchainOf is the version of Go that go.work in dir names, once the go command has it: it may download it.
func toolchainOf(ctx context.Context, dir string) (string, error) {
	name := filepath.Join(dir, "go.work")
	text, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	work, err := modfile.ParseWork(name, text, nil)
	if err != nil {
		return "", err
	}
	if work.Toolchain == nil {
		return "", fmt.Errorf("go.work names no toolchain; add one with go work edit -toolchain")
	}
	toolchain := work.Toolchain.Name
	ask := exec.CommandContext(ctx, "go", "env", "GOVERSION")
	ask.Dir, ask.Env = dir, append(os.Environ(), "GOWORK=off", "GOTOOLCHAIN="+toolchain)
	out, err := ask.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("releases are built with %s, as go.work says, and the go command cannot get it: %w: %s", toolchain, err, out)
	}
	return toolchain, checkGo("the go command", strings.TrimSpace(string(out)), toolchain)
}

// checkGo refuses a Go that is older than what go.work names.
func checkGo(what, built, toolchain string) error {
	if version.Compare(built, toolchain) < 0 {
		return fmt.Errorf("%s is of %s; releases are built with %s, as go.work says: see why there", what, built, toolchain)
	}
	return nil
}

// finish writes the files beside the binaries.
func finish(into, release, toolchain string, names []string, changelog string) error {
	text, err := os.ReadFile(changelog)
	if err != nil {
		return err
	}
	news, err := notes(text, release)
	if err != nil {
		return err
	}
	list, err := sbom(into, release, toolchain, names)
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{"NOTES.md": news, "sbom.cdx.json": list} {
		if err := os.WriteFile(filepath.Join(into, name), content, 0o644); err != nil {
			return err
		}
	}
	var sums bytes.Buffer
	for _, name := range slices.Sorted(slices.Values(append(names, "NOTES.md", "sbom.cdx.json"))) {
		content, err := os.ReadFile(filepath.Join(into, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(content), name)
	}
	return os.WriteFile(filepath.Join(into, "SHA256SUMS"), sums.Bytes(), 0o644)
}

// notes returns the section of the changelog for a version.
func notes(changelog []byte, release string) ([]byte, error) {
	title := regexp.MustCompile(`(?m)^## \[?` + regexp.QuoteMeta(strings.TrimPrefix(release, "v")) + `\]?( .*)?\n`)
	at := title.FindIndex(changelog)
	if at == nil {
		return nil, fmt.Errorf("CHANGELOG.md has no section \"## %s\"; write what is new in this version", strings.TrimPrefix(release, "v"))
	}
	section, _, _ := bytes.Cut(changelog[at[1]-1:], []byte("\n## "))
	section = bytes.TrimSpace(section)
	if len(section) == 0 {
		return nil, fmt.Errorf("CHANGELOG.md has an empty section \"## %s\"; write what is new in this version", strings.TrimPrefix(release, "v"))
	}
	return fmt.Appendf(nil, "# hone %s\n\n%s\n", release, section), nil
}

// The parts of CycloneDX that the SBOM has. It has no time and no serial number, so that it can be made again.
type (
	bill struct {
		Format     string      `json:"bomFormat"`
		Spec       string      `json:"specVersion"`
		Version    int         `json:"version"`
		Metadata   metadata    `json:"metadata"`
		Components []component `json:"components"`
	}
	metadata struct {
		Component component `json:"component"`
	}
	component struct {
		Type       string     `json:"type"`
		Name       string     `json:"name"`
		Version    string     `json:"version"`
		URL        string     `json:"purl,omitempty"`
		Properties []property `json:"properties,omitempty"`
	}
	property struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
)

// sbom lists the modules that are in the binaries, as the binaries themselves say.
func sbom(dir, release, toolchain string, names []string) ([]byte, error) {
	type module struct{ path, version string }
	in := make(map[module][]string) // the binaries that contain it
	for _, name := range names {
		info, err := buildinfo.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if err := checkGo(name, info.GoVersion, toolchain); err != nil {
			return nil, err
		}
		std := module{"std", strings.TrimPrefix(info.GoVersion, "go")}
		in[std] = append(in[std], name)
		for _, m := range info.Deps {
			if !ours(m.Path) {
				one := module{m.Path, m.Version}
				in[one] = append(in[one], name)
			}
		}
	}
	list := bill{Format: "CycloneDX", Spec: "1.5", Version: 1, Metadata: metadata{component{Type: "application", Name: "hone", Version: release}}}
	for m, names := range in {
		c := component{Type: "library", Name: m.path, Version: m.version, URL: "pkg:golang/" + m.path + "@" + m.version}
		for _, name := range names {
			c.Properties = append(c.Properties, property{"hone:binary", name})
		}
		list.Components = append(list.Components, c)
	}
	slices.SortFunc(list.Components, func(a, b component) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Version, b.Version))
	})
	text, err := json.MarshalIndent(list, "", "  ")
	return append(text, '\n'), err
}
