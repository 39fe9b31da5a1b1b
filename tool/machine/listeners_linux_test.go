package machine

import (
	"net"
	"os"
	"os/exec"
	"slices"
	"testing"
)

// The processes that listen on a port are found by it, also those that have inherited the socket.
func TestListeners(t *testing.T) {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).AddrPort().Port()
	if got := Listeners(port); !slices.Equal(got, []int{os.Getpid()}) {
		t.Errorf("%v listen, want this process, %d", got, os.Getpid())
	}
	file, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command("sleep", "60")
	child.ExtraFiles = []*os.File{file}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer child.Wait()
	defer child.Process.Kill()
	file.Close()
	if got := Listeners(port); len(got) != 2 || !slices.Contains(got, child.Process.Pid) {
		t.Errorf("%v listen, want also %d", got, child.Process.Pid)
	}
	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if got := Listeners(nc.LocalAddr().(*net.TCPAddr).AddrPort().Port()); got != nil {
		t.Errorf("%v listen on a client's port", got)
	}
}
