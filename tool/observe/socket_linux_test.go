package observe_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/hone-go/hone/tool/observe"
)

// TestBornPrivate looks at the mode that a socket file has from bind, before
// any chmod.
func TestBornPrivate(t *testing.T) {
	countLeaks(t)
	path := filepath.Join(t.TempDir(), "admin")
	private := net.ListenConfig{Control: observe.BornPrivate}
	ln, err := private.Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket file is %v (%v), want mode 0600", info.Mode(), err)
	}
}
