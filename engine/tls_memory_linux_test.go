package engine_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/internal/testrun"
)

// An idle TLS connection costs what crypto/tls keeps, and little more: no goroutine, and the
// process's memory after a forced collection. The server is a process of its own.
func TestIdleTLSMemory(t *testing.T) {
	if os.Getenv("HONE_TLS_IDLE") != "" {
		serveIdleTLS(t)
		return
	}
	if testing.Short() || testrun.Race {
		t.Skip("it measures memory: run it without -short and without -race")
	}
	t.Parallel() // the memory is another process's
	n := testrun.Sized(500, 9500)
	for _, c := range []struct {
		name    string
		version uint16 // 0: it sends nothing
		most    int
	}{{"TLS 1.3", tls.VersionTLS13, 8500}, {"TLS 1.2", tls.VersionTLS12, 5500}, {"silent", 0, 2000}} {
		t.Run(c.name, func(t *testing.T) {
			if !testrun.All() { // three times as many descriptors
				t.Parallel()
			}
			s := startIdleTLS(t)
			s.open(t, min(n/3, 300), tls.VersionTLS13)
			s.close()
			heap, resident, _ := s.used(t, 0)
			s.open(t, n, c.version)
			heapThen, residentThen, goroutines := s.used(t, n)
			each := (residentThen - resident) / n
			t.Logf("%d connections: %d bytes of the process's memory each, %d of heap and stacks, %d goroutines in all", n, each, (heapThen-heap)/n, goroutines)
			most := c.most + 500_000/n // the process's own weighs on few
			if each > most || goroutines > 100 {
				t.Errorf("want at most %d bytes, and no goroutine for each", most)
			}
		})
	}
}

// idleTLS is the server's process, and what is connected to it.
type idleTLS struct {
	addr string
	in   io.WriteCloser
	out  *bufio.Reader
	mu   sync.Mutex
	all  []net.Conn
}

func startIdleTLS(t *testing.T) *idleTLS {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestIdleTLSMemory$")
	cmd.Env, cmd.Stderr = append(os.Environ(), "HONE_TLS_IDLE=1"), os.Stderr
	s := &idleTLS{}
	s.in, _ = cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	s.out = bufio.NewReader(out)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.close()
		s.in.Close()
		cmd.Wait()
	})
	line, err := s.out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	s.addr = strings.TrimSpace(line)
	return s
}

func (s *idleTLS) close() {
	for _, c := range s.all {
		c.Close()
	}
	s.all = nil
}

// open opens n connections, of which each has made a request unless the version is 0.
func (s *idleTLS) open(t *testing.T, n int, version uint16) {
	var left atomic.Int64
	left.Store(int64(n))
	var workers sync.WaitGroup
	for range 16 {
		workers.Go(func() {
			for left.Add(-1) >= 0 {
				nc, err := net.Dial("tcp", s.addr)
				if err != nil {
					t.Error(err)
					return
				}
				if version != 0 {
					config := quick()
					config.MaxVersion = version
					c := tls.Client(nc, config)
					io.WriteString(c, "hello\n")
					if _, err := io.ReadFull(c, make([]byte, 6)); err != nil {
						t.Error(err)
						return
					}
					nc = c
				}
				s.mu.Lock()
				s.all = append(s.all, nc)
				s.mu.Unlock()
			}
		})
	}
	workers.Wait()
}

// used asks the server for its memory when n connections have rested.
func (s *idleTLS) used(t *testing.T, n int) (heap, resident, goroutines int) {
	fmt.Fprintln(s.in, n)
	line, err := s.out.ReadString('\n')
	if err == nil {
		_, err = fmt.Sscan(line, &heap, &resident, &goroutines)
	}
	if err != nil {
		t.Fatal(err)
	}
	return heap, resident, goroutines
}

// serveIdleTLS is the server's process.
func serveIdleTLS(t *testing.T) {
	s := &engine.Server{Protocol: echoLines(), Logger: slog.New(slog.DiscardHandler)}
	s.Limits.Conns, s.Limits.FrameTime, s.Limits.IdleTime = -1, time.Minute, 20*time.Minute
	ln := configured(t, &tls.Config{})
	go s.Serve(ln)
	fmt.Println(ln.Addr())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		n := 0
		fmt.Sscan(in.Text(), &n)
		if !eventually(patience, func() bool { return s.Stats().Open == n }) {
			t.Fatalf("%d connections are open, want %d", s.Stats().Open, n)
		}
		rest := time.NewTimer(4 * time.Second) // what detaches rested connections has no event
		<-rest.C
		for range 3 {
			runtime.GC()
			debug.FreeOSMemory()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		fmt.Println(m.HeapInuse+m.StackInuse, residentMemory(), runtime.NumGoroutine())
	}
	s.Close()
}

// residentMemory is this process's.
func residentMemory() (bytes int) {
	text, _ := os.ReadFile("/proc/self/statm")
	var size, pages int
	fmt.Sscan(string(text), &size, &pages)
	return pages * os.Getpagesize()
}
