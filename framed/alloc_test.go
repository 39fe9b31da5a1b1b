package framed_test

import (
	"bytes"
	"io"
	"net"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/internal/testrun"
)

// TestNoAllocationsPerRequest counts the allocations of the whole process over 3000
// requests, or 20 000 with HONE_TEST_ALL=1, from a client that allocates nothing itself.
func TestNoAllocationsPerRequest(t *testing.T) {
	if testrun.Race {
		t.Skip("the race detector makes sync.Pool drop what it is given, to find misuse; go test without -race runs this")
	}
	const depth = 20
	rounds := testrun.Sized(150, 1000)
	pingPong := 2 * rounds
	most := uint64(testrun.Sized(120, 200)) // by the runtime itself, over all rounds; one per visit would be more
	var took atomic.Int64
	count := func(r framed.Request) { took.Add(int64(r.Took)) }
	pause := time.NewTimer(0)
	<-pause.C
	replies := make(chan framed.Reply, depth)
	content := []byte("thirty-two bytes of some content")
	handlers := []struct {
		name    string
		answers int // packets per request
		handle  framed.HandlerFunc
		hook    func(framed.Request)
	}{
		{"inline", 1, echo, nil},
		{"inline, reported", 1, echo, count},
		{"inline, returned", 1, func(_ framed.Call, dst, req []byte) ([]byte, error) { return req, nil }, nil},
		{"late", 1, func(c framed.Call, dst, req []byte) ([]byte, error) {
			replies <- c.Later()
			return nil, nil
		}, nil},
		{"late, reported", 1, func(c framed.Call, dst, req []byte) ([]byte, error) {
			replies <- c.Later()
			return nil, nil
		}, count},
		{"late, within the handler", 1, func(c framed.Call, dst, req []byte) ([]byte, error) {
			return nil, c.Later().Send(req)
		}, nil},
		{"with a push", 2, func(c framed.Call, dst, req []byte) ([]byte, error) {
			return append(dst, req...), c.Conn().Push(c.ID(), req)
		}, nil},
		{"slow now and then", 1, func(c framed.Call, dst, req []byte) ([]byte, error) {
			if c.Conn().Value() == nil {
				c.Conn().SetValue(new(int))
			}
			n := c.Conn().Value().(*int)
			if *n++; *n%200 == 0 { // outlasts the watchdog's tick, so that the next requests run off the loop
				pause.Reset(3 * time.Millisecond)
				<-pause.C
			}
			return append(dst, req...), nil
		}, nil},
		{"with a value", 1, func(c framed.Call, dst, req []byte) ([]byte, error) {
			if v, ok := c.Conn().Value().([]byte); ok {
				return append(dst, v...), nil
			}
			c.Conn().SetValue(content)
			return append(dst, req...), nil
		}, nil},
	}
	inTurn(t, func(t *testing.T, e engine.Engine) {
		var sender sync.WaitGroup
		stop := make(chan struct{})
		sender.Go(func() {
			for {
				select {
				case r := <-replies:
					if err := r.Send(content); err != nil {
						t.Error(err)
					}
				case <-stop:
					return
				}
			}
		})
		defer sender.Wait()
		defer close(stop)
		for _, h := range handlers {
			addr := serve(t, &framed.Server{Engine: e, Handler: h.handle, OnRequest: h.hook})
			nc, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			nc.SetDeadline(time.Now().Add(patience))
			out := bytes.Repeat(submit(1, string(content)), depth)
			in := make([]byte, depth*h.answers*len(ack(1, string(content)))-depth*(h.answers-1))
			for _, way := range []struct{ n, times int }{{1, pingPong}, {depth, rounds}} {
				out, in := out[:len(out)/depth*way.n], in[:len(in)/depth*way.n]
				allocated := allocations(t, nc, out, in, way.times)
				for try := 0; try < 2 && allocated > most; try++ { // the runtime allocates for itself when the machine is busy, but not each time
					allocated = allocations(t, nc, out, in, way.times)
				}
				if allocated > most {
					t.Errorf("%s, %d at once: %d allocations over %d requests, want at most %d", h.name, way.n, allocated, way.times*way.n, most)
				}
			}
			nc.Close()
		}
	})
}

// allocations writes out times times, reads the replies in, and counts the allocations of
// the process after a warm-up. Garbage collection is off, because it empties pools.
func allocations(t *testing.T, nc net.Conn, out, in []byte, times int) uint64 {
	t.Helper()
	exchange := func(times int) {
		for range times {
			if _, err := nc.Write(out); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(nc, in); err != nil {
				t.Fatal(err)
			}
		}
	}
	exchange(times / 10)
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	exchange(times)
	runtime.ReadMemStats(&after)
	return after.Mallocs - before.Mallocs
}
