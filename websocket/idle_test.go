package websocket

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/http1"
	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/internal/tlsfront"
)

// An idle connection needs little of the server's memory, after it has received a fragmented
// message and a ping, with and without compression. Over TLS most of it is crypto/tls's, and the limit
// is on the process's memory, when there are enough connections to measure that. The server runs in a
// process of its own.
func TestIdleMemory(t *testing.T) {
	if testing.Short() || testrun.Race {
		t.Skip("it measures memory: run it without -short and without -race")
	}
	if runtime.GOOS != "linux" {
		t.Skipf("event loops need Linux, this is %s", runtime.GOOS)
	}
	all := testrun.Sized(500, 15_000)
	if all <= 1000 { // 15 000 twice may be more than a process's limit of descriptors
		t.Parallel() // the memory is another process's
	}
	const most = 220
	for _, c := range []struct {
		name     string
		compress bool
		version  uint16 // of TLS; 0: none
		resident int    // at most, with TLS
	}{
		{name: "ws"}, {name: "deflate", compress: true},
		{name: "wss, TLS 1.3", version: tls.VersionTLS13, resident: 8700},
		{name: "wss, TLS 1.2", version: tls.VersionTLS12, resident: 5700},
	} {
		t.Run(c.name, func(t *testing.T) {
			if all <= 1000 {
				t.Parallel()
			}
			n, first := all, 100
			if c.version != 0 {
				n, first = testrun.Sized(50, 2000), testrun.Sized(10, 100)
			}
			s := startIdle(t, c.version)
			s.open(t, first, c.compress) // so that the server has allocated what the first ones need
			heap, resident := s.memory(t, first)
			s.open(t, n, c.compress)
			heapThen, residentThen := s.memory(t, first+n)
			each := float64(heapThen-heap) / float64(n)
			ofProcess := (residentThen - resident) / n
			t.Logf("%s: %.0f bytes of heap and stacks for each of %d idle connections, %d of the process's memory", c.name, each, n, ofProcess)
			switch {
			case c.version == 0 && each > most:
				t.Errorf("%.0f bytes per connection, want at most %d", each, most)
			case c.version != 0 && testrun.All() && ofProcess > c.resident:
				t.Errorf("%d bytes per connection, want at most %d", ofProcess, c.resident)
			}
		})
	}
}

// serverProcess is a server in a process of its own.
type serverProcess struct {
	addr    string
	version uint16 // of TLS; 0: none
	in      io.Writer
	out     *bufio.Scanner
}

// startIdle starts the test binary as a server.
func startIdle(t *testing.T, version uint16) *serverProcess {
	s := startServer(t, fmt.Sprint("HONE_IDLE_SERVER=", version != 0))
	s.version = version
	return s
}

// startServer starts the test binary as the server that an environment variable asks for.
func startServer(t *testing.T, order string) *serverProcess {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), order)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close() // ends the process
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	s := &serverProcess{in: in, out: bufio.NewScanner(out)}
	s.addr = s.line(t)
	return s
}

func (s *serverProcess) line(t *testing.T) string {
	t.Helper()
	if !s.out.Scan() {
		t.Fatalf("the server has ended: %v", s.out.Err())
	}
	return s.out.Text()
}

// memory returns the memory in use once n connections are idle.
func (s *serverProcess) memory(t *testing.T, n int) (heap, resident int) {
	t.Helper()
	fmt.Fprintln(s.in, n)
	if _, err := fmt.Sscan(s.line(t), &heap, &resident); err != nil {
		t.Fatal(err)
	}
	return heap, resident
}

// open opens n connections, each of which sends a fragmented message and a ping.
func (s *serverProcess) open(t *testing.T, n int, compress bool) {
	text := strings.Repeat("a message in pieces ", 10)
	first, lines, want := byte(opText), []string(nil), appendFrame(nil, byte(opText)|finBit, []byte(text))
	payload := []byte(text)
	if compress {
		var z Compression
		lines = []string{"Sec-WebSocket-Extensions: permessage-deflate"}
		payload = z.deflate(nil, mostWindow, payload)
		first, want = first|compressedBit, appendFrame(nil, byte(opText)|finBit|compressedBit, payload)
	}
	want = append(served(opPong, "?"), want...)
	got := make([]byte, len(want))
	r := bufio.NewReader(nil)
	for range n {
		nc, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nc.Close() })
		nc.SetDeadline(time.Now().Add(10 * patience))
		if s.version != 0 {
			nc = tls.Client(nc, &tls.Config{InsecureSkipVerify: true, MaxVersion: s.version})
		}
		r.Reset(nc)
		p := &peer{nc, t, r}
		p.send([]byte(asking(lines...)))
		p.switched()
		p.send(append(appendMasked(nil, first, payload[:7]), frame(opPing, "?")...))
		p.send(piece(opContinuation, true, string(payload[7:])))
		if _, err := io.ReadFull(r, got); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("got %q, %v", got, err)
		}
	}
}

// serveIdle runs in the server process: for each number that it reads, it waits until that many
// connections are idle, and writes the memory in use.
func serveIdle(secure bool) error {
	s := &http1.Server{
		Engine: engine.Events(engine.Auto), Limits: engine.Limits{Conns: -1},
		Handler: &Upgrader{Message: echo, Compression: &Compression{MinSize: 1}},
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	addr := ln.Addr().String()
	if secure {
		ln = engine.NewTLSListener(ln, &tls.Config{Certificates: []tls.Certificate{tlsfront.Certificate()}})
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	fmt.Println(addr)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var n int
		if _, err := fmt.Sscan(in.Text(), &n); err != nil {
			return err
		}
		tick := time.NewTicker(100 * time.Millisecond)
		for rested := 0; rested < 15; <-tick.C { // long enough for all connections to return their buffers
			if st := s.Stats(); st.Open == n && st.Helpers == 0 && (st.Lent == 0 || secure) { // a busy machine needs helpers
				rested++
			} else {
				rested = 0
			}
		}
		tick.Stop()
		for range 3 {
			debug.FreeOSMemory() // pools keep their contents for two collections
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		fmt.Println(m.HeapAlloc+m.StackInuse, residentMemory())
	}
	s.Close()
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// residentMemory is the process's resident memory, in bytes.
func residentMemory() int {
	status, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	var kib int
	fmt.Sscan(rest, &kib)
	return kib << 10
}
