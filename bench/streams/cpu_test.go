//go:build linux

package streams

import (
	"bytes"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// askers are connections to a server that each send some requests at a time, and again when
// these are answered.
type askers struct {
	pid       int // the server's
	conns     []net.Conn
	ask, want []byte
	requests  int          // in ask
	blank     func([]byte) // overwrites what may differ from want
}

func newAskers(t *testing.T, pid int, addr string, conns int, ask, want []byte, requests int, blank func([]byte)) *askers {
	t.Helper()
	a := &askers{pid: pid, ask: ask, want: want, requests: requests, blank: blank}
	for range conns {
		c, _ := dial(t, addr, 0)
		a.conns = append(a.conns, c)
	}
	return a
}

// cost is the server's CPU time per request within a window, in nanoseconds.
func (a *askers) cost(t *testing.T, window time.Duration) float64 {
	began, requests := cpuOf(t, a.pid), new(atomic.Int64)
	until := time.Now().Add(window)
	var asking sync.WaitGroup
	for _, c := range a.conns {
		asking.Go(func() {
			got := make([]byte, len(a.want))
			c.SetDeadline(until.Add(20 * time.Second))
			for time.Now().Before(until) {
				if _, err := c.Write(a.ask); err != nil {
					t.Error(err)
					return
				}
				_, err := io.ReadFull(c, got)
				if a.blank(got); err != nil || !bytes.Equal(got, a.want) {
					t.Errorf("read %q, %v", got, err)
					return
				}
				requests.Add(int64(a.requests))
			}
		})
	}
	asking.Wait()
	return float64((cpuOf(t, a.pid) - began).Nanoseconds()) / float64(max(1, requests.Load()))
}

// compareCPU has both sides take turns. It returns the ratios of one's cost to the other's,
// and the other's costs, each in order.
func compareCPU(t *testing.T, one, other *askers, pairs int, window time.Duration) (ratios, costs []float64) {
	t.Helper()
	one.cost(t, window)
	other.cost(t, window)
	for pair := range pairs {
		var a, b float64
		if pair%2 == 0 {
			a, b = one.cost(t, window), other.cost(t, window)
		} else {
			b, a = other.cost(t, window), one.cost(t, window)
		}
		ratios, costs = append(ratios, a/b), append(costs, b)
	}
	slices.Sort(ratios)
	slices.Sort(costs)
	return ratios, costs
}
