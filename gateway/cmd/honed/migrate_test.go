package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hone-go/hone/gateway/internal/commandline"
	"github.com/hone-go/hone/gateway/journal"
	"github.com/hone-go/hone/internal/testrun"
)

// plainLog writes the log of an honed with --log file:.
func plainLog(t *testing.T, n int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	var all []byte
	for i := range n {
		e := journal.Encoder{}
		e.Begin(0)
		if err := e.Record(&journal.Record{Client: "meter-4", Epoch: 1, Seq: uint64(i) + 1, Data: []byte("hello")}); err != nil {
			t.Fatal(err)
		}
		all = append(all, e.Bytes()...)
	}
	if err := os.WriteFile(filepath.Join(dir, "log"), all, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestMigrate migrates a log and says what it did.
func TestMigrate(t *testing.T) {
	dir := plainLog(t, 100)
	if code, _, errs := honed(t, "serve", "--listen", "127.0.0.1:0", "--admin", "off", "--data", dir); code != commandline.Failed || !strings.Contains(errs, "type: honed migrate --data "+dir) {
		t.Fatal(code, errs)
	}
	code, before, errs := honed(t, "export", "--data", dir)
	if code != commandline.OK || strings.Count(before, "\n") != 100 {
		t.Fatal(code, errs)
	}
	code, out, errs := honed(t, "migrate", "--data", dir)
	if want := fmt.Sprintf("migrated 100 envelopes, positions 1 to 100, old log kept in %s\n", filepath.Join(dir, "old")); code != commandline.OK || out != want {
		t.Fatalf("%d %s%s", code, out, errs)
	}
	if code, out, errs := honed(t, "migrate", "--data", dir); code != commandline.OK || !strings.HasPrefix(out, "nothing to migrate: ") {
		t.Errorf("again: %d %s%s", code, out, errs)
	}
	for _, folder := range []string{dir, filepath.Join(dir, "old")} {
		if code, after, errs := honed(t, "export", "--data", folder); code != commandline.OK || after != before {
			t.Errorf("%s: %d %s", folder, code, errs)
		}
		if code, out, errs := honed(t, "verify", "--data", folder); code != commandline.OK || !strings.Contains(out, `"records":100,`) {
			t.Errorf("%s: %d %s%s", folder, code, out, errs)
		}
	}
}

// TestMigrateLoss refuses a damaged log until its loss is accepted. What is lost stays lost at its position.
func TestMigrateLoss(t *testing.T) {
	dir := plainLog(t, 100)
	path := filepath.Join(dir, "log")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 4
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	code, before, _ := honed(t, "export", "--data", dir)
	if code != commandline.Failed || strings.Count(before, `"lost":`) != 1 {
		t.Fatal(code, before)
	}
	code, out, errs := honed(t, "migrate", "--data", dir)
	_, accept, found := strings.Cut(errs, "--accept-loss ")
	if code != commandline.Failed || out != "" || !found || !strings.Contains(errs, "the envelope at position") {
		t.Fatalf("%d %s%s", code, out, errs)
	}
	code, out, errs = honed(t, "migrate", "--json", "--data", dir, "--accept-loss", strings.FieldsFunc(accept, func(r rune) bool { return r == ':' || r == ' ' || r == '\n' })[0])
	var done journal.Migration
	if err := json.Unmarshal([]byte(out), &done); err != nil || code != commandline.OK || done.Envelopes != 99 || done.Lost != 1 {
		t.Fatalf("%d %s%s", code, out, errs)
	}
	_, after, _ := honed(t, "export", "--data", dir)
	for line := range strings.Lines(before) {
		if !strings.Contains(line, `"lost":`) && !strings.Contains(after, line) {
			t.Errorf("the new log has no %s", line)
		}
	}
	if code, out, errs := honed(t, "verify", "--data", dir); code != commandline.OK || !strings.Contains(out, `"lost":1,"accepted":1`) {
		t.Errorf("verify: %d %s%s", code, out, errs)
	}
}

// earlier builds honed as it was at a commit.
func earlier(t *testing.T, commit string) (program string) {
	t.Helper()
	dir := t.TempDir()
	archive := exec.Command("git", "archive", commit)
	archive.Dir = filepath.Join("..", "..", "..")
	b, err := archive.Output()
	if err != nil {
		t.Skipf("NOT PROVEN HERE: this test needs the history of the repository with commit %s (a full clone): %v", commit, err)
	}
	unpack := exec.Command("tar", "-x", "-C", dir)
	unpack.Stdin = bytes.NewReader(b)
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	program = filepath.Join(dir, "honed")
	build := exec.Command("go", "build", "-o", program, "./gateway/cmd/honed")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return program
}

// TestMigrateEarlier has earlier versions write logs of both kinds, killed under load, in format 1 and in format
// 2, and compares their export with this version's, before and after a migration.
func TestMigrateEarlier(t *testing.T) {
	if !testrun.All() {
		t.Skip("it builds two earlier versions; HONE_TEST_ALL=1 runs it")
	}
	for commit, format := range map[string]byte{"a4fc546": 1, "e4c5a16": 2} {
		program := earlier(t, commit)
		ran := func(args ...string) string {
			t.Helper()
			var out, errs bytes.Buffer
			cmd := exec.Command(program, args...)
			cmd.Stdout, cmd.Stderr = &out, &errs
			if err := cmd.Run(); err != nil {
				t.Fatalf("%s %q: %v\n%s", commit, args, err, errs.Bytes())
			}
			return out.String()
		}
		for _, kind := range []string{"", "file:"} {
			dir := filepath.Join(t.TempDir(), "log")
			ran("prove", "--keep", dir, "--log", kind, "--messages", "300000", "--kills", "3", "--size", "200")
			copied := filepath.Join(t.TempDir(), "log") // reading would change it
			if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			want := ran("export", "--data", copied, "--log", kind)
			before := sizes(t, dir)
			code, got, errs := honed(t, "export", "--data", dir)
			if code != commandline.OK || got != want {
				t.Fatalf("%s %q: %d, %d bytes of export, want %d: %s", commit, kind, code, len(got), len(want), errs)
			}
			if after := sizes(t, dir); after != before {
				t.Errorf("%s %q: reading has changed the folder: %s, before %s", commit, kind, after, before)
			}
			code, out, errs := honed(t, "migrate", "--data", dir)
			if code != commandline.OK {
				t.Fatalf("%s %q: %d %s", commit, kind, code, errs)
			}
			for _, folder := range []string{dir, filepath.Join(dir, "old")} {
				if code, got, errs := honed(t, "export", "--data", folder); code != commandline.OK || got != want {
					t.Errorf("%s %q, %s: %d, %d bytes of export, want %d: %s", commit, kind, folder, code, len(got), len(want), errs)
				}
			}
			t.Logf("%s, --log %q, format %d: %s%d lines of export, 0 differences", commit, kind, format, out, strings.Count(want, "\n"))
			if kind == "" { // an earlier version refuses the new folder
				out, err := exec.Command(program, "--listen", "127.0.0.1:0", "--admin", "off", "--data", dir).CombinedOutput()
				if err == nil || !strings.Contains(string(out), "has a log but no file READY") {
					t.Errorf("%s: %v %s", commit, err, out)
				}
			}
			if code, out, errs := honed(t, "prove", "--keep", dir, "--messages", "1000", "--kills", "0"); code == commandline.Usage {
				t.Errorf("the new log does not start: %d %s%s", code, out, errs)
			}
		}
	}
}

// sizes lists the files of a folder with their sizes and times.
func sizes(t *testing.T, dir string) (all string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			all += fmt.Sprintln(path, info.Size(), info.ModTime())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
