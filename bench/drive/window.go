package drive

import (
	"errors"
	"os"
	"time"

	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/tool/load"
)

// window reads the clocks at the edges of the measured time.
type window struct {
	pid         int // the server's
	first, last moment
	err         error
}

type moment struct {
	at                   time.Time
	server, client, idle time.Duration
	cpus                 int
}

func (w *window) opens()  { w.first = w.read() }
func (w *window) closes() { w.last = w.read() }

func (w *window) read() (m moment) {
	var errs [3]error
	m.server, errs[0] = fleet.ProcessCPU(w.pid)
	m.client, errs[1] = fleet.ProcessCPU(os.Getpid())
	m.at = time.Now()
	m.idle, m.cpus, errs[2] = fleet.IdleCPU()
	w.err = errors.Join(w.err, errors.Join(errs[:]...))
	return m
}

// figure joins the clocks with what load has measured.
func (w *window) figure(r *load.Result) *Figure {
	f := &Figure{
		Requests: r.Requests, Rate: r.Rate, Doubts: r.InvalidReasons,
		P50: r.Latency.P50, P99: r.Latency.P99, P999: r.Latency.P999,
	}
	span := w.last.at.Sub(w.first.at)
	if w.err != nil || span <= 0 {
		return f
	}
	server, client, idle := w.last.server-w.first.server, w.last.client-w.first.client, w.last.idle-w.first.idle
	part := func(d time.Duration) *float64 {
		v := d.Seconds() / span.Seconds()
		return &v
	}
	f.Busy = part(client)
	f.Others = part(max(0, span*time.Duration(w.last.cpus)-idle-client-server))
	if r.Rate == nil || *r.Rate <= 0 {
		return f
	}
	each := func(d time.Duration) *float64 {
		v := *part(d) / *r.Rate * 1e6
		return &v
	}
	f.CPU, f.ClientCPU = each(server), each(client)
	return f
}
