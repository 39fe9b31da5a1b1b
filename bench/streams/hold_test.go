//go:build linux

package streams

import (
	"bufio"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestHoldCPU has Turn.Hold in every visit cost little beside the visit.
func TestHoldCPU(t *testing.T) {
	const conns, deep, pairs = 100, 16, 9
	window := size(300*time.Millisecond, 2*time.Second)
	path := program(t, "server")
	for _, engine := range engines() {
		t.Run(engine, func(t *testing.T) {
			ask, want := []byte(strings.Repeat("ping\n", deep)), []byte(strings.Repeat("pong\n", deep))
			newSide := func(hold string) *askers {
				s := start(t, path, "-engine", engine, "-hold="+hold)
				return newAskers(t, s.PID, s.addr, conns, ask, want, deep, func([]byte) {})
			}
			ratios, costs := compareCPU(t, newSide("true"), newSide("false"), pairs, window)
			t.Logf("without Hold %.0f ns of CPU a request; the ratios of %d pairs are %.3f to %.3f", costs[pairs/2], pairs, ratios[0], ratios[pairs-1])
			judge(t, "CPU with Hold to CPU without, the median", ratios[pairs/2], "%.3f", "<=", 1.1)
		})
	}
}

// TestNoPushBeforeWelcome races pushes against the first requests of connections. A push
// that began after Hold had returned must never be read before the answer of that visit.
// Without Hold some are, which shows that there is a race to lose.
func TestNoPushBeforeWelcome(t *testing.T) {
	pushes := size(100_000, 1_000_000)
	path := program(t, "server")
	for _, engine := range engines() {
		for _, hold := range []string{"true", "false"} {
			t.Run(engine+"/hold="+hold, func(t *testing.T) {
				s := start(t, path, "-engine", engine, "-flood", "2", "-hold="+hold)
				pushes := pushes
				if hold == "false" {
					pushes /= 5
				}
				var c counts
				var clients sync.WaitGroup
				deadline := time.Now().Add(2 * time.Minute)
				for range 16 {
					clients.Go(func() {
						for int(c.read.Load()) < pushes && time.Now().Before(deadline) {
							if err := c.greet(s.addr); err != nil {
								t.Error(err)
								return
							}
						}
					})
				}
				clients.Wait()
				t.Logf("%d pushes beside %d handshakes; of those that began before Hold %d came before the welcome, of all others %d, and %d of them began in the visit",
					c.read.Load(), c.handshakes.Load(), c.early.Load(), c.passed.Load(), c.raced.Load())
				switch {
				case int(c.read.Load()) < pushes:
					t.Errorf("only %d pushes came", c.read.Load())
				case hold == "true" && c.passed.Load() > 0:
					t.Errorf("%d pushes passed the welcome", c.passed.Load())
				case hold == "true" && c.raced.Load() == 0:
					t.Error("no push began in a visit: nothing was raced")
				case hold == "false" && c.passed.Load() == 0:
					t.Error("without Hold no push passed the welcome: the race shows nothing")
				}
			})
		}
	}
}

// counts is what clients have seen of pushes.
type counts struct {
	handshakes, read, early, raced, passed atomic.Int64
}

// greet makes a connection, says hello, and reads some time beyond the welcome.
func (c *counts) greet(addr string) error {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(20 * time.Second))
	nc.(*net.TCPConn).SetLinger(0) // thousands of them are not to use up the ports
	if _, err := nc.Write([]byte("hello\n")); err != nil {
		return err
	}
	lines := bufio.NewReader(nc)
	welcome := false
	for beyond := 0; beyond < 50; {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return err
		}
		if string(line) == "welcome\n" {
			welcome = true
			c.handshakes.Add(1)
			continue
		}
		c.read.Add(1)
		began := line[0] // where the push did: b, v or w
		if began == 'v' {
			c.raced.Add(1)
		}
		switch {
		case welcome:
			beyond++
		case began == 'b':
			c.early.Add(1)
		default:
			c.passed.Add(1)
		}
	}
	return nil
}
