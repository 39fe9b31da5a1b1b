package drive

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/hone-go/hone/bench/client"
	"github.com/hone-go/hone/bench/fleet"
)

// window reads the clocks at the edges of the measured time.
type window struct {
	pid         int // the server's
	first, last moment
	err         error
}

type moment struct {
	at             time.Time
	server, client time.Duration
}

func (w *window) opens()  { w.first = w.read() }
func (w *window) closes() { w.last = w.read() }

func (w *window) read() (m moment) {
	var errs [2]error
	m.server, errs[0] = fleet.ProcessCPU(w.pid)
	m.client, errs[1] = fleet.ProcessCPU(os.Getpid())
	m.at = time.Now()
	w.err = errors.Join(w.err, errors.Join(errs[:]...))
	return m
}

// figure joins the clocks with what the client has measured.
func (w *window) figure(r *client.Result) *Figure {
	f := &Figure{Requests: r.Requests, Figures: map[string]float64{"rate": r.Rate}, Doubts: []string{}}
	for name, us := range map[string]*float64{"p50_us": r.P50, "p99_us": r.P99, "p999_us": r.P999} {
		if us != nil {
			f.Figures[name] = *us
		}
	}
	span, busy := w.last.at.Sub(w.first.at), 0.0
	if w.err == nil && span > 0 {
		server, client := w.last.server-w.first.server, w.last.client-w.first.client
		part := func(d time.Duration) float64 { return max(0, d.Seconds()/span.Seconds()) }
		busy = part(client - r.Spun)
		f.Figures["server_busy"], f.Figures["client_busy"] = part(server), busy
		if r.Rate > 0 {
			f.Figures["cpu_us"] = part(server) / r.Rate * 1e6
		}
	}
	f.doubt(busy, r)
	return f
}

// The client vouches for its figures up to here.
const (
	mostBusy = 0.95 // of the CPUs that it may use
	mostLate = 1000 // µs
)

// doubt says why the figures may be the client's rather than the server's.
func (f *Figure) doubt(busy float64, r *client.Result) {
	doubt := func(format string, args ...any) { f.Doubts = append(f.Doubts, fmt.Sprintf(format, args...)) }
	if share := busy / float64(runtime.GOMAXPROCS(0)); share > mostBusy {
		doubt("the client used %.0f %% of its CPU: it may be the limit", 100*share)
	}
	if r.Late != nil && *r.Late > mostLate {
		doubt("one request in a hundred was sent %.0f µs late or more", *r.Late)
	}
	if r.Missing > 0 {
		doubt("%d requests have no answer", r.Missing)
	}
}
