//go:build unix

package serving

import (
	"net/http"
	"path/filepath"
	"syscall"
	"testing"
)

// A FIFO is refused at once: opening it would wait for a writer, on a thread each.
func TestFilesRefusesFIFOs(t *testing.T) {
	dir := publicFolder(t)
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Skipf("no FIFOs here: %v", err)
	}
	server := fileServer(t, dir, nil)
	t.Cleanup(func() { // a handler that waits would hold the end of the test up
		if fd, err := syscall.Open(fifo, syscall.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
			syscall.Close(fd)
		}
	})
	if status, _ := fetch(t, server, "/files/fifo"); status != http.StatusNotFound {
		t.Errorf("status %d, want 404", status)
	}
}
