// Package testrun tells tests in what kind of run they are.
package testrun

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"testing"
)

// All reports whether HONE_TEST_ALL is set, as in CI: slow tests run, sizes are full, and
// a test that cannot run fails.
func All() bool { return os.Getenv("HONE_TEST_ALL") != "" }

// Sized returns full in a run of all tests, and otherwise usual.
func Sized(usual, full int) int {
	if All() {
		return full
	}
	return usual
}

// SideBySide lets n parallel tests run at once, however few processors there are, because
// they wait more than they compute. It has no effect with -parallel, nor with the race
// detector, under which they compute more. Call it in TestMain.
func SideBySide(n int) {
	flag.Parse()
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "test.parallel" })
	if !set && !Race {
		flag.Set("test.parallel", strconv.Itoa(n))
	}
}

// Lacks ends a test for want of something on this machine: it skips it, and in a run of
// all tests fails it.
func Lacks(t testing.TB, what string) {
	t.Helper()
	if All() {
		t.Fatal(what)
	}
	t.Skip(what)
}

// FreeAddr returns an address of this machine at which nobody listens. A UDP socket keeps its port from other tests,
// also of other processes, until this one ends. Nothing listens there meanwhile, not even for a moment: a child that
// another test starts would have that listener until it runs its program.
func FreeAddr(t testing.TB) string {
	t.Helper()
	for range 100 { // below the ports of outgoing connections, which may take one while its server is down
		addr := fmt.Sprintf("127.0.0.1:%d", 15000+rand.IntN(17000))
		kept, err := net.ListenPacket("udp", addr)
		if err != nil {
			continue
		}
		t.Cleanup(func() { kept.Close() })
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			return addr
		}
		nc.Close()
	}
	t.Fatal("no port is free")
	return ""
}

// SocketFolder returns a folder whose name is short enough for sockets in it, unlike t.TempDir's.
func SocketFolder(t testing.TB) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "hone")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	return folder
}
