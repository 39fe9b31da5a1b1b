//go:build linux

package memory

import (
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// What an idle connection takes one second after it was used, and when it has settled:
// heap and stacks after a forced collection, against the same process after 100 000
// requests with nobody connected. A server that has never worked looks smaller.
func TestIdleConnections(t *testing.T) {
	const warmUp, atOnce = 100_000, 100
	conns, engines, most := 15_000, []string{"events"}, []int64{220, 125}
	if *all {
		engines = append(engines, "buffered")
	}
	hone := build(t)
	for _, engine := range engines {
		t.Run(engine, func(t *testing.T) {
			ctx := t.Context()
			s := startWith(ctx, t, hone, "--engine", engine, "--admin", "127.0.0.1:0")
			var mu sync.Mutex
			var open []net.Conn
			crowd := func(conns, each int) {
				var left atomic.Int64
				left.Store(int64(conns))
				var workers sync.WaitGroup
				for range atOnce {
					workers.Go(func() {
						for left.Add(-1) >= 0 {
							c := dial(ctx, t, s.addr)
							for id := range each {
								if err := ask(c, uint64(id), "hello", ""); err != nil {
									t.Error(err)
								}
							}
							mu.Lock()
							open = append(open, c)
							mu.Unlock()
						}
					})
				}
				workers.Wait()
			}
			leave := func() {
				for _, c := range open {
					c.Close()
				}
				open = nil
			}
			defer leave()
			crowd(atOnce, warmUp/atOnce)
			leave()
			pause(ctx, 3*time.Second)
			base := s.used(t)
			crowd(conns, 1)
			pause(ctx, time.Second)
			justAfter := (s.used(t) - base) / int64(conns)
			pause(ctx, 5*time.Second)
			settled := (s.used(t) - base) / int64(conns)
			t.Logf("%d connections: %d bytes each one second after use, %d settled; base %d KiB", conns, justAfter, settled, base>>10)
			if engine == "events" && (justAfter > most[0] || settled > most[1]) {
				t.Errorf("want %d bytes at most, and %d", most[0], most[1])
			}
		})
	}
}

var memStats = regexp.MustCompile(`(?m)^# (?:HeapInuse|Stack) = (\d+)`)

// used is what the server's heap and stacks use, after collections that empty its pools.
func (s *server) used(t *testing.T) (sum int64) {
	t.Helper()
	var text []byte
	for range 2 {
		r, err := http.Get("http://" + s.admin + "/debug/pprof/heap?gc=1&debug=1")
		if err != nil {
			t.Fatal(err)
		}
		text, err = io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil || r.StatusCode != http.StatusOK {
			t.Fatalf("%s: %v", r.Status, err)
		}
	}
	found := memStats.FindAllSubmatch(text, -1)
	if len(found) != 2 {
		t.Fatalf("the server says of its memory: %q", found)
	}
	for _, m := range found {
		n, _ := strconv.ParseInt(string(m[1]), 10, 64)
		sum += n
	}
	return sum
}
