package observe_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/observe"
)

// childRole is the environment variable that makes the test binary a server.
const childRole = "HONE_TEST_ROLE"

// childReady is the line that the child prints when it serves.
type childReady struct{ Addr, Admin string }

// serveAsChild serves until its standard input ends. The server runs in a process of its own, so
// its connections and CPU time are separate from the test's.
func serveAsChild() error {
	var ready childReady
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	srv := &framed.Server{Handler: echo{}, Limits: engine.Limits{Conns: math.MaxInt32}}
	admin := &observe.Admin{Stats: srv.Stats}
	private, err := admin.Listen("127.0.0.1:0")
	if err != nil {
		return err
	}
	var sides sync.WaitGroup
	sides.Go(func() { srv.Serve(ln) })
	sides.Go(func() { admin.Serve(private) })
	ready.Addr, ready.Admin = ln.Addr().String(), private.Addr().String()
	if err := json.NewEncoder(os.Stdout).Encode(ready); err != nil {
		return err
	}
	io.Copy(io.Discard, os.Stdin)
	srv.Close()
	private.Close()
	sides.Wait()
	return nil
}

// startChild starts a server process, which ends with the test.
func startChild(tb testing.TB) (ready childReady) {
	tb.Helper()
	self, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childRole+"=serve")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			tb.Errorf("the server process: %v", err)
		}
	})
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &ready)
	}
	if err != nil {
		tb.Fatalf("the server said %q: %v", line, err)
	}
	return ready
}

const (
	crowd = 15_000
	spare = 500 // descriptors for everything else
	dials = 64  // concurrently
)

// crowdSize is how many connections the two processes can have between them: as many as one of
// them has descriptors.
func crowdSize(tb testing.TB) int {
	tb.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		tb.Fatal(err)
	}
	n := crowd
	if limit.Cur < crowd+spare {
		n = max(1, int(limit.Cur)-spare)
		tb.Logf("only %d connections: the descriptor limit is %d; raise it with ulimit -n %d", n, limit.Cur, crowd+spare)
	}
	return n
}

// gather opens n connections to addr. It resets them at the end, so that none stays in TIME_WAIT.
func gather(tb testing.TB, addr string, n int) {
	tb.Helper()
	conns := make([]net.Conn, n)
	errs := make(chan error, dials)
	for i := range dials {
		go func() {
			for j := i; j < n; j += dials {
				nc, err := net.DialTimeout("tcp", addr, patience)
				if err != nil {
					errs <- err
					return
				}
				conns[j] = nc
			}
			errs <- nil
		}()
	}
	tb.Cleanup(func() {
		for _, nc := range conns {
			if nc != nil {
				nc.(*net.TCPConn).SetLinger(0)
				nc.Close()
			}
		}
	})
	for range dials {
		if err := <-errs; err != nil {
			tb.Fatal(err)
		}
	}
}

// scraper sends requests to an admin side in another process.
type scraper struct {
	admin string
	http  http.Client
}

// newScraper keeps one connection, as Prometheus does.
func newScraper(tb testing.TB, admin string) *scraper {
	transport := new(http.Transport)
	tb.Cleanup(transport.CloseIdleConnections)
	return &scraper{admin: admin, http: http.Client{Transport: transport, Timeout: patience}}
}

// get returns the body of path, and how long the request took.
func (s *scraper) get(path string) (string, time.Duration, error) {
	began := time.Now()
	response, err := s.http.Get("http://" + s.admin + path)
	if err != nil {
		return "", 0, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s: %s", path, response.Status, body)
	}
	return string(body), time.Since(began), err
}

// snapshot returns /stats.
func (s *scraper) snapshot() (*observe.Snapshot, error) {
	body, _, err := s.get("/stats")
	if err != nil {
		return nil, err
	}
	snapshot := new(observe.Snapshot)
	return snapshot, json.Unmarshal([]byte(body), snapshot)
}

// awaitCrowd waits until the server has accepted all connections.
func (s *scraper) awaitCrowd(tb testing.TB, n int) {
	tb.Helper()
	deadline := time.Now().Add(patience)
	for {
		now, err := s.snapshot()
		switch {
		case err != nil:
			tb.Fatal(err)
		case now.Connections == n:
			return
		case time.Now().After(deadline):
			tb.Fatalf("%d of %d connections after %v", now.Connections, n, patience)
		}
	}
}

// TestScrapeOfACrowd scrapes a server with 3,000 connections, or 15,000 in a run of all tests, in a
// process of its own.
// BenchmarkScrapeOfACrowd measures the time, about 2 ms. This test only rules out that it gets out
// of hand: the best of ten scrapes must take less than half a second on any machine.
func TestScrapeOfACrowd(t *testing.T) {
	n := min(crowdSize(t), testrun.Sized(3000, crowd))
	child := startChild(t)
	s := newScraper(t, child.Admin)
	gather(t, child.Addr, n)
	s.awaitCrowd(t, n)
	best := patience
	for range 10 {
		body, took, err := s.get("/metrics")
		if err != nil {
			t.Fatal(err)
		}
		if got := parse(t, body)["hone_connections"]; got != float64(n) {
			t.Fatalf("%v connections, want %d", got, n)
		}
		best = min(best, took)
	}
	t.Logf("%d connections: the best of ten scrapes took %v", n, best)
	if best > 500*time.Millisecond {
		t.Errorf("the best of ten scrapes took %v", best)
	}
}

// BenchmarkScrapeOfACrowd is one scrape, over HTTP, of a server in another process.
func BenchmarkScrapeOfACrowd(b *testing.B) {
	for _, conns := range []int{0, 1000, crowd} {
		b.Run(fmt.Sprint("conns=", conns), func(b *testing.B) {
			child := startChild(b)
			s := newScraper(b, child.Admin)
			conns := min(conns, crowdSize(b))
			gather(b, child.Addr, conns)
			s.awaitCrowd(b, conns)
			for b.Loop() {
				if _, _, err := s.get("/metrics"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
