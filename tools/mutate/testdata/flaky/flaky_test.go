package flaky

import (
	"os"
	"testing"
)

// TestSet fails in those of its runs that have an x in $HONE_TEST_RUNS. It counts runs by the length
// of a file.
func TestSet(t *testing.T) {
	runs, file := os.Getenv("HONE_TEST_RUNS"), os.Getenv("HONE_TEST_FILE")
	before, _ := os.ReadFile(file)
	if err := os.WriteFile(file, append(before, '.'), 0o600); err != nil {
		t.Fatal(err)
	}
	if runs[len(before)] == 'x' {
		t.Error("as told")
	}
	if runs[len(before)] == '!' {
		os.Exit(1)
	}
}
