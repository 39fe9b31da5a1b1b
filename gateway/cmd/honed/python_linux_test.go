package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
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

	must(t, os.CopyFS(build, os.DirFS(source))) // the build leaves files there
	run("", "-m", "pip", "wheel", "--no-index", "--no-build-isolation", "--no-deps", "--wheel-dir", dir, build)
	wheels, err := filepath.Glob(filepath.Join(dir, "honed_client-*-py3-none-any.whl"))
	if err != nil || len(wheels) != 1 {
		t.Fatal(wheels, err)
	}
	run("", "-m", "pip", "install", "--no-index", "--no-deps", "--target", installed, wheels[0])
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
