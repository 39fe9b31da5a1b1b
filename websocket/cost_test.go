package websocket

import (
	"bufio"
	"io"
	"math"
	"net/http"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/internal/testrun"
)

// TestNoAllocationsPerMessage counts the allocations of the whole process for messages and
// pushes, with a client that does not allocate.
func TestNoAllocationsPerMessage(t *testing.T) {
	if testrun.Race {
		t.Skip("the race detector makes sync.Pool drop items at random; go test without -race runs this")
	}
	const depth = 20
	rounds := testrun.Sized(150, 1000)
	most := uint64(rounds * 4 / 5) // the runtime's own, on a busy machine; one per visit would be a fifth more
	content := []byte("thirty-two bytes of some content")
	prepared := Prepare(Text, content, nil)
	for _, c := range []struct {
		name    string
		sent    []byte
		answers []byte
		handle  func(c Call, dst, msg []byte) ([]byte, error)
	}{
		{"answers", frame(opText, string(content)), served(opText, string(content)), echo},
		{"answers of another length class", frame(opText, string(content)), served(opText, string(make([]byte, 300))), func(_ Call, dst, _ []byte) ([]byte, error) {
			return append(dst, make([]byte, 300)...), nil
		}},
		{"fragments and a ping", append(append(piece(opText, false, "thirty-two bytes "), frame(opPing, "?")...), piece(opContinuation, true, "of some content")...),
			append(served(opPong, "?"), served(opText, string(content))...), echo},
		{"pushes", frame(opText, string(content)), append(served(opBinary, string(content)), served(opText, string(content))...), func(c Call, _, msg []byte) ([]byte, error) {
			if err := c.Conn().Binary(msg[:7], msg[7:]); err != nil {
				return nil, err
			}
			return nil, c.Conn().Send(prepared)
		}},
		{"late replies", frame(opText, string(content)), served(opText, string(content)), func(c Call, _, msg []byte) ([]byte, error) {
			return nil, c.Later().Text(msg)
		}},
	} {
		for _, e := range engine.All() {
			t.Run(c.name+"/"+e.Name(), func(t *testing.T) {
				at := &place{t: t, engine: &e}
				p, _ := upgraded(t, at.serve(&Upgrader{Message: c.handle}))
				var all []byte
				for range depth {
					all = append(all, c.sent...)
				}
				got := make([]byte, depth*len(c.answers))
				r := bufio.NewReaderSize(p.r, 64<<10)
				round := func() {
					p.send(all)
					if _, err := io.ReadFull(r, got); err != nil {
						t.Fatal(err)
					}
				}
				for range 50 {
					round()
				}
				defer debug.SetGCPercent(debug.SetGCPercent(-1))
				n := uint64(math.MaxUint64)
				for try := 0; try < 3 && n > most; try++ { // the runtime allocates for itself when the machine is busy, but not each time
					n = mallocs(rounds, round)
				}
				if n > most {
					t.Errorf("%d allocations for %d messages", n, rounds*depth)
				}
			})
		}
	}
}

// mallocs counts the process's allocations while f runs n times.
func mallocs(n int, f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range n {
		f()
	}
	runtime.ReadMemStats(&after)
	return after.Mallocs - before.Mallocs
}

// A push from another goroutine does not allocate either.
func TestNoAllocationsPerPush(t *testing.T) {
	if testrun.Race {
		t.Skip("the race detector makes sync.Pool drop items at random; go test without -race runs this")
	}
	for _, e := range engine.All() {
		t.Run(e.Name(), func(t *testing.T) {
			at := &place{t: t, engine: &e}
			conns := make(chan Conn, 1)
			p, _ := upgraded(t, at.serve(&Upgrader{Message: echo, Open: func(c Conn, _ *http.Request) error { conns <- c; return nil }}))
			c := heard(t, conns, "the connection")
			prepared := Prepare(Binary, make([]byte, 100), nil)
			text := make([]byte, 100)
			got := make([]byte, 2*102)
			push := func() {
				if c.Text(text) != nil || c.Send(prepared) != nil {
					t.Fatal("the connection has ended")
				}
				if _, err := io.ReadFull(p.r, got); err != nil {
					t.Fatal(err)
				}
			}
			if n := testing.AllocsPerRun(2000, push); n != 0 {
				t.Errorf("%v allocations for two pushes", n)
			}
		})
	}
}
