package tlsfiles

import (
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkLook is the cost of the check for a handshake when nothing has changed.
func BenchmarkLook(b *testing.B) {
	path := filepath.Join(b.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		b.Fatal(err)
	}
	f := &files{Server: Server{Cert: path, Key: path, ClientCA: path}}
	f.seen = f.stat()
	b.ReportAllocs()
	for b.Loop() {
		f.look()
	}
}
