package gateway

import (
	"os/exec"
	"strings"
	"testing"
)

// TestWithoutNATS: a program that imports package gateway builds nothing of NATS.
func TestWithoutNATS(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "/gateway/journal\n") {
		t.Fatalf("%v\n%s", err, out)
	}
	if strings.Contains(string(out), "nats") || strings.Contains(string(out), "/gateway/cluster\n") {
		t.Errorf("package gateway builds a cluster's log:\n%s", out)
	}
}
