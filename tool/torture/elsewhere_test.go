//go:build !linux

package torture

import (
	"testing"

	"github.com/hone-go/hone/internal/testrun"
)

func startNginx(t *testing.T) string {
	testrun.Lacks(t, "nginx is started on Linux only")
	return ""
}

func nginxVersion(*testing.T) string { return "" }

// heldAddress returns an address on which nothing listens.
func heldAddress(t *testing.T) string {
	t.Helper()
	ln := listen(t)
	defer ln.Close()
	return ln.Addr().String()
}
