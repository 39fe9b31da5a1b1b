package http1

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"

	"github.com/hone-go/hone/engine"
)

// Many slow readers of long answers are all served within Limits.TotalOutput: it does not end
// connections as long as a small part of each answer fits into it.
func TestSlowReadersOfLongAnswers(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, e engine.Engine) {
		const clients = 64
		long := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
		begun := make(chan struct{}, clients)
		s := serve(t, &Server{Engine: e, Limits: engine.Limits{TotalOutput: clients * 40 << 10}, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			begun <- struct{}{}
			w.Header().Set("Content-Length", strconv.Itoa(len(long)))
			w.Write(long)
		})})
		var all []*net.TCPConn
		for range clients {
			nc := s.dial(t)
			nc.SetReadBuffer(32 << 10)
			say(t, nc, getting("/"))
			all = append(all, nc)
		}
		for range clients {
			<-begun
		}
		var reading sync.WaitGroup
		for _, nc := range all {
			reading.Go(func() {
				if n, err := io.CopyN(io.Discard, nc, int64(len(long))); err != nil {
					t.Errorf("read %d bytes, %v", n, err)
				}
			})
		}
		reading.Wait()
		if n := s.Stats().Ended[engine.OutputBudget]; n > 0 {
			t.Errorf("%d connections were closed for TotalOutput", n)
		}
	})
}
