package gateway

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/wire"
)

// steppedClock returns the clocks of a process, moved by what the file "clock" says: how far the wall
// clock and the monotonic clock are ahead, in milliseconds.
func steppedClock(dir string) func() (wall, mono int64) {
	began := time.Now()
	return func() (wall, mono int64) {
		text, err := os.ReadFile(filepath.Join(dir, "clock"))
		if err == nil {
			_, err = fmt.Sscan(string(text), &wall, &mono)
		}
		if err != nil {
			panic(err)
		}
		now := time.Now()
		return now.UnixMilli() + wall, now.Sub(began).Milliseconds() + mono
	}
}

// TestClockProcesses runs random histories of clock steps, kill -9, clean stops and clients against
// real processes with a log on disk. No session is forgotten whose client was away for less than the
// expiry of running time, and a clean stop forgets those that were away for longer.
func TestClockProcesses(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for n := range testrun.Sized(6, 200) {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			(&processHistory{t: t, dir: t.TempDir(), random: rand.New(rand.NewPCG(seed, uint64(n)))}).run()
		})
	}
}

// processHistory is one history.
type processHistory struct {
	t          *testing.T
	dir        string
	random     *rand.Rand
	wall, mono int64 // steps of the clocks; the monotonic clock begins again with a process
	process    *exec.Cmd
	stdin      io.Closer
	up         served
	clients    [3]struct {
		epoch, last uint64
		at          *peer
		away        int64 // running time since it was connected
		crashed     bool  // while it was away: the log may not know for how long
	}
}

func (h *processHistory) run() {
	const expiry = 7 * day
	h.step(0, 0)
	h.start()
	defer h.kill()
	for range 14 {
		i := h.random.IntN(len(h.clients))
		c := &h.clients[i]
		switch h.random.IntN(7) {
		case 0, 1: // the wall clock jumps
			h.step([]int64{1, -1}[h.random.IntN(2)]*[]int64{hour, 3 * day, 10 * day, 3650 * day}[h.random.IntN(4)], 0)
		case 2, 3: // time passes
			d := h.random.Int64N([]int64{day, 5 * day, 9 * day}[h.random.IntN(3)])
			h.step(d, d)
			for j := range h.clients {
				if h.clients[j].at == nil {
					h.clients[j].away += d
				}
			}
		case 4:
			h.kill()
			h.leave(true)
			h.start()
		case 5:
			h.leave(false)
			h.stop()
			h.start()
			for j := range h.clients {
				if c := &h.clients[j]; c.epoch != 0 && c.away > expiry+day && !c.crashed {
					p := h.up.peer(h.t)
					p.send(wire.Packet{Command: wire.Conn, ID: 1, Content: hello{client: fmt.Sprint("c", j), epoch: c.epoch, next: c.last + 1}.append(nil)})
					p.must(wire.ConnAck, 1, resultExpired)
					c.epoch, c.last, c.away, c.crashed = 0, 0, 0, false
				}
			}
		case 6:
			if c.at != nil {
				h.close(c.at)
				c.at = nil
			}
		}
		if c.at == nil && c.away <= expiry && h.random.IntN(2) == 0 {
			c.at = h.up.peer(h.t)
			w := c.at.hello(hello{client: fmt.Sprint("c", i), epoch: c.epoch, next: c.last + 1}) // fails if it is refused
			if w.last != c.last {
				h.t.Errorf("client %d: %+v, want %d", i, w, c.last)
			}
			c.epoch, c.away, c.crashed = w.epoch, 0, false
		}
		if c.at != nil {
			c.last++
			c.at.submit(c.last, "x")
			c.at.must(wire.SubmitAck, c.last, wire.OK)
		}
	}
}

// close ends a connection, and returns when the server knows.
func (h *processHistory) close(p *peer) {
	h.t.Helper()
	if err := p.nc.(*net.TCPConn).CloseWrite(); err != nil {
		h.t.Fatal(err)
	}
	p.closed()
	for range 20 { // some of them on the same event loop, which then has noted the end
		h.probe()
	}
}

// step moves the clocks.
func (h *processHistory) step(wall, mono int64) {
	h.wall, h.mono = h.wall+wall, h.mono+mono
	path := filepath.Join(h.dir, "clock")
	err := os.WriteFile(path+".new", fmt.Append(nil, h.wall, " ", h.mono), 0o600)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// leave has all clients lose their connections.
func (h *processHistory) leave(crash bool) {
	for i := range h.clients {
		c := &h.clients[i]
		if c.at != nil {
			if crash {
				c.at.nc.Close()
			} else {
				h.close(c.at)
			}
			c.at = nil
		} else {
			c.crashed = c.crashed || crash
		}
	}
}

func (h *processHistory) start() {
	h.t.Helper()
	h.mono = 0
	h.step(0, 0)
	h.process = exec.Command(os.Args[0])
	h.process.Env = append(os.Environ(), "HONE_GATEWAY_ROLE=clock "+h.dir)
	h.process.Stderr = os.Stderr
	stdin, err := h.process.StdinPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	out, err := h.process.StdoutPipe()
	if err == nil {
		h.stdin, err = stdin, h.process.Start()
	}
	if err != nil {
		h.t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		h.t.Fatal(err)
	}
	h.up.addr = strings.TrimSpace(line)
	h.probe()
}

// probe returns when the server has done what it had to do.
func (h *processHistory) probe() {
	h.t.Helper()
	p := h.up.peer(h.t)
	p.hello(first("probe"))
	p.nc.Close()
}

func (h *processHistory) kill() {
	h.process.Process.Kill()
	h.process.Wait()
	h.stdin.Close()
}

// stop ends the process with a checkpoint.
func (h *processHistory) stop() {
	h.t.Helper()
	h.stdin.Close()
	if err := h.process.Wait(); err != nil {
		h.t.Fatal(err)
	}
}
