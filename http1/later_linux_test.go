package http1

import (
	"net"
	"net/http"
	"runtime"
	"testing"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/internal/testrun"
)

// A late answer that waits costs at most a kilobyte above an idle connection, and no goroutine.
func TestLateMemory(t *testing.T) {
	waiting(t, 1<<10, 0, func(w http.ResponseWriter, r *http.Request, answers chan<- *LateAnswer, _ <-chan struct{}) {
		Later(w, r, func(answer *LateAnswer) { answers <- answer })
	})
}

// A handler that waits has no read buffer of 64 KiB, whether it has said so by Leave or by its first
// Flush.
func TestWaitingHandlersFreeTheirInput(t *testing.T) {
	for name, waits := range map[string]func(w http.ResponseWriter){
		"Leave": Leave,
		"Flush": func(w http.ResponseWriter) { w.(http.Flusher).Flush() },
	} {
		t.Run(name, func(t *testing.T) {
			waiting(t, 20<<10, 1, func(w http.ResponseWriter, r *http.Request, answers chan<- *LateAnswer, over <-chan struct{}) {
				waits(w)
				answers <- nil
				<-over
			})
		})
	}
}

// waiting has handlers of many connections wait at the same time, and measures what each costs.
func waiting(t *testing.T, most, goroutines int, handler func(http.ResponseWriter, *http.Request, chan<- *LateAnswer, <-chan struct{})) {
	if testing.Short() || testrun.Race {
		t.Skip("it measures memory: run it without -short and without -race")
	}
	conns := 500
	if testrun.All() {
		conns = 4_000 // both ends have a descriptor here
	}
	answers, over := make(chan *LateAnswer, conns), make(chan struct{})
	s := serve(t, &Server{Engine: engine.Events(engine.Auto), Limits: engine.Limits{Conns: conns + 1}, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			handler(w, r, answers, over)
		}
	})})
	all := make([]net.Conn, conns)
	buf := make([]byte, 1<<10)
	for i := range all {
		all[i] = s.dial(t)
		say(t, all[i], getting("/"))
		if _, err := all[i].Read(buf); err != nil {
			t.Fatal(err)
		}
	}
	before, running := rested(t, s), runtime.NumGoroutine()
	for _, nc := range all {
		say(t, nc, getting("/wait"))
	}
	var late []*LateAnswer
	for range all {
		late = append(late, <-answers)
	}
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	more := runtime.NumGoroutine() - running
	each := (int(m.HeapAlloc+m.StackInuse) - before) / conns
	t.Logf("%d bytes and %d goroutines for %d connections", each, more, conns)
	if each > most || more > goroutines*conns+8 {
		t.Errorf("%d bytes each, and %d goroutines; want at most %d and %d each", each, more, most, goroutines)
	}
	close(over)
	for _, answer := range late {
		if answer != nil {
			answer.Send(200, nil)
		}
	}
	for _, nc := range all {
		if _, err := nc.Read(buf); err != nil {
			t.Fatal(err)
		}
	}
}
