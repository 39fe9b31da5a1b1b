package machine

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"testing"
)

// TestProgram reads the test binary.
func TestProgram(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f, err := Program(path)
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(binary)
	if f.Soft["sha256"] != hex.EncodeToString(sum[:]) {
		t.Errorf("sha256 %s", f.Soft["sha256"])
	}
	for key, want := range map[string]string{"go": runtime.Version(), "goos": runtime.GOOS, "goarch": runtime.GOARCH, "compiler": runtime.Compiler} {
		if f.Strict[key] != want {
			t.Errorf("%s %q, want %q", key, f.Strict[key], want)
		}
	}
}

func TestProgramOfNobody(t *testing.T) {
	if f, err := Program(filepath.Join(t.TempDir(), "nothing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%+v, %v", f, err)
	}
	if f, err := Program(t.TempDir()); err == nil {
		t.Errorf("a folder is a program: %+v", f)
	}
	script := filepath.Join(t.TempDir(), "script")
	for _, text := range []string{"", "#!/bin/sh\n", "\x7fELF\x02\x01\x01", "MZ"} {
		if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		f, err := Program(script)
		if err != nil || len(f.Strict) != 0 || len(f.Soft) != 1 || len(f.Soft["sha256"]) != 64 {
			t.Errorf("%q: %+v, %v", text, f, err)
		}
	}
}

// TestSettings checks which build settings are kept, under which names, and that none
// reveals a folder.
func TestSettings(t *testing.T) {
	f := Facts{Strict: map[string]string{}, Soft: map[string]string{}}
	for _, s := range []debug.BuildSetting{
		{Key: "-buildmode", Value: "exe"},
		{Key: "-compiler", Value: "gc"},
		{Key: "-race", Value: "true"},
		{Key: "-pgo", Value: "/folder/of/somebody/default.pgo"},
		{Key: "-gcflags", Value: "-N -l"},
		{Key: "-asmflags", Value: "-trimpath=/folder"},
		{Key: "-ldflags", Value: "-X main.name=somebody"},
		{Key: "-tags", Value: "netgo"},
		{Key: "CGO_ENABLED", Value: "1"},
		{Key: "CGO_CFLAGS", Value: "-I/folder"},
		{Key: "DefaultGODEBUG", Value: "panicnil=1"},
		{Key: "GOOS", Value: "linux"},
		{Key: "GOARCH", Value: "amd64"},
		{Key: "GOAMD64", Value: "v3"},
		{Key: "GOEXPERIMENT", Value: "greenteagc"},
		{Key: "vcs", Value: "git"},
		{Key: "vcs.revision", Value: "0123abc"},
		{Key: "vcs.modified", Value: "true"},
		{Key: "vcs.time", Value: "2026-01-01T00:00:00Z"},
	} {
		f.setting(s)
	}
	strict := map[string]string{
		"compiler": "gc", "race": "true", "pgo": "on", "gcflags": "-N -l", "asmflags": "with paths", "tags": "netgo",
		"cgo": "1", "goos": "linux", "goarch": "amd64", "GOAMD64": "v3", "GOEXPERIMENT": "greenteagc",
	}
	soft := map[string]string{"godebug": "panicnil=1", "revision": "0123abc", "modified": "true"}
	if !maps.Equal(f.Strict, strict) || !maps.Equal(f.Soft, soft) {
		t.Errorf("strict %v\nsoft %v", f.Strict, f.Soft)
	}
}
