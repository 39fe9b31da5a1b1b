package websocket

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
)

// In a drain that spreads, as many WebSockets get their Close in every second, and until then are served.
func TestSpreadDrain(t *testing.T) {
	const clients, whole = 400, 20 * time.Second
	inFakeTime(t, func(t *testing.T, at *place) {
		at.limits = engine.Limits{SpreadTime: whole}
		open := at.fake(&Upgrader{Message: func(_ Call, dst, msg []byte) ([]byte, error) { return append(dst, msg...), nil }})
		var began time.Time
		var mu sync.Mutex
		var reading sync.WaitGroup
		counts := map[int]int{}
		for range clients {
			p := open()
			reading.Go(func() {
				var err error
				var frames Frames
				var in []byte
				buffer := make([]byte, 1<<10)
				for n := 0; ; n++ {
					p.SetReadDeadline(time.Now().Add(time.Second))
					got, readErr := p.Read(buffer)
					in = append(in, buffer[:got]...)
					kind, payload, used, frameErr := frames.Next(in)
					in = in[used:]
					if frameErr != nil {
						err = frameErr
						break
					}
					if kind == CloseFrame {
						if want := "\x03\xe9the server is shutting down"; string(payload) != want {
							err = fmt.Errorf("a Close with %q, want %q", payload, want)
						}
						break
					}
					if kind == 0 && got == 0 && n > 100 {
						err = readErr
						break
					}
					if kind == 0 {
						p.Write(frame(opText, "hello"))
					}
				}
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
				}
				counts[int(time.Since(began)/time.Second)]++
				p.Close()
			})
		}
		<-time.After(5 * time.Second)
		mu.Lock()
		began = time.Now()
		mu.Unlock()
		if err := at.end(t.Context()); err != nil {
			t.Error(err)
		}
		reading.Wait()
		for second := range int(whole / time.Second) {
			if n, want := counts[second], clients/int(whole/time.Second); n < want/2 || n > want*3/2 {
				t.Errorf("%d ended in second %d, want %d, give or take a half", n, second, want)
			}
		}
	})
}
