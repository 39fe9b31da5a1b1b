package main

import (
	"archive/zip"
	"context"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/internal/testrun"
)

// TestPythonWheel builds the wheel of gateway/python, installs it into an empty folder, and has that send a message and
// read it back.
func TestPythonWheel(t *testing.T) {
	if !testrun.All() {
		t.Skip("takes ten seconds; HONE_TEST_ALL=1 runs it")
	}
	t.Parallel() // it waits more than it works
	python := buildsWheels(t)
	source, dir := filepath.Join("..", "..", "python"), t.TempDir()
	build, installed := filepath.Join(dir, "build"), filepath.Join(dir, "installed")
	run := func(stdin string, args ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, python, args...)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
		cmd.Env = append(os.Environ(), "PYTHONPATH="+installed, "PIP_DISABLE_PIP_VERSION_CHECK=1", "PIP_ROOT_USER_ACTION=ignore")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}

	// The build leaves files in its folder, so that is a copy.
	modules, err := filepath.Glob(filepath.Join(source, "honed", "*.*"))
	if err == nil {
		err = os.MkdirAll(filepath.Join(build, "honed"), 0o700)
	}
	must(t, err)
	want := map[string]string{}
	for _, file := range append(modules, filepath.Join(source, "pyproject.toml"), filepath.Join(source, "README.md")) {
		rel, _ := filepath.Rel(source, file)
		text, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(filepath.Join(build, rel), text, 0o600)
		}
		must(t, err)
		want[filepath.ToSlash(rel)] = string(text)
	}
	version := regexp.MustCompile(`(?m)^version = "(.+)"$`).FindStringSubmatch(want["pyproject.toml"])
	if version == nil {
		t.Fatal("pyproject.toml has no version")
	}
	readme := want["README.md"]
	delete(want, "pyproject.toml")
	delete(want, "README.md")
	run("", "-m", "pip", "wheel", "--no-index", "--no-build-isolation", "--no-deps", "--wheel-dir", dir, build)
	wheel := filepath.Join(dir, "honed_client-"+version[1]+"-py3-none-any.whl")

	got, about := map[string]string{}, map[string]string{}
	archive, err := zip.OpenReader(wheel)
	must(t, err)
	defer archive.Close()
	for _, f := range archive.File {
		r, err := f.Open()
		must(t, err)
		text, err := io.ReadAll(r)
		must(t, err)
		if name, is := strings.CutPrefix(f.Name, "honed_client-"+version[1]+".dist-info/"); is {
			about[name] = string(text)
		} else {
			got[f.Name] = string(text)
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("the wheel has %v; want %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
	if names := slices.Sorted(maps.Keys(about)); !slices.Equal(names, []string{"METADATA", "RECORD", "WHEEL", "top_level.txt"}) {
		t.Errorf("about the wheel: %v", names)
	}
	for _, line := range []string{"\nName: honed-client\n", "\nVersion: " + version[1] + "\n", "\nRequires-Python: >=3.9\n", readme} {
		if !strings.Contains(about["METADATA"], line) {
			t.Errorf("%q is missing in %s", line, about["METADATA"])
		}
	}
	if strings.Contains(about["METADATA"], "\nRequires-Dist:") {
		t.Error("it has dependencies: ", about["METADATA"])
	}

	run("", "-m", "pip", "install", "--no-index", "--no-deps", "--target", installed, wheel)
	if from := run("", "-c", "import honed; print(honed.__file__)"); !strings.HasPrefix(from, installed) {
		t.Errorf("the package is from %s", from)
	}
	g := startGateway(t, filepath.Join(dir, "data"), "127.0.0.1:0")
	run("from the wheel\n", "-m", "honed", "send", g.addr, "meter", "--store", filepath.Join(dir, "meter.db"))
	out := run("", "-m", "honed", "read", g.addr, "copy", "--count", "1")
	if !strings.Contains(out, `"client": "meter"`) || !strings.Contains(out, `"data": "ZnJvbSB0aGUgd2hlZWw="`) {
		t.Error(out)
	}
}

// buildsWheels finds a Python that can: python3 may be another one than Debian's, which has what make deps installs.
func buildsWheels(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(name, "-c", "import setuptools, wheel, pip").Run() == nil {
			return name
		}
	}
	testrun.Lacks(t, "no python3 has pip, setuptools and wheel; make deps installs them")
	return ""
}
