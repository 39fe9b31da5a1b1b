package http1

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"runtime"
	"testing"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/internal/testrun"
)

// A connection that was lent once needs no more memory, when it is idle again, than before.
func TestIdleAfterLoan(t *testing.T) {
	if testing.Short() || testrun.Race {
		t.Skip("it measures memory: run it without -short and without -race")
	}
	conns := 500
	if testrun.All() {
		conns = 2000
	}
	s := serve(t, &Server{Engine: engine.Events(engine.Auto), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
	})})
	all := make([]net.Conn, conns)
	for i := range all {
		all[i] = s.dial(t)
	}
	buf := make([]byte, 1<<10)
	each := func(request string) {
		for _, nc := range all { // one by one: many concurrent goroutines would leave memory behind
			say(t, nc, request)
			for n := 0; !bytes.HasSuffix(buf[:n], []byte("\r\n\r\n")); {
				m, err := nc.Read(buf[n:])
				if err != nil {
					t.Fatal(err)
				}
				n += m
			}
		}
	}
	each(getting("/"))
	say(t, all[0], chunked) // so that the server has allocated what the first loan needs
	if _, err := all[0].Read(buf); err != nil {
		t.Fatal(err)
	}
	before := rested(t, s)
	each(chunked)
	if st := s.Stats(); st.Loans != uint64(conns)+1 {
		t.Fatalf("%d loans, want %d", st.Loans, conns+1)
	}
	await(t, "the loans' end", func() bool { return s.Stats().OpenLoans == 0 })
	most := before + 220*conns
	after := 0
	await(t, "little memory", func() bool { after = rested(t, s); return after <= most })
	t.Logf("%.0f bytes more for each of %d connections", float64(after-before)/float64(conns), conns)
}

// rested is the memory in use once connections hold no buffers.
func rested(t *testing.T, s *serving) int {
	t.Helper()
	await(t, "buffers to be given back", func() bool { return s.Stats().Lent == 0 })
	for range 3 {
		runtime.GC() // pools keep their contents for two collections
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc + m.StackInuse)
}
