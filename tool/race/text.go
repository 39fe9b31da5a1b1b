package race

import (
	"fmt"
	"io"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/tool/figure"
	"github.com/hone-go/hone/tool/load"
)

// Report is the result of a demo. A figure that is not available is null.
type Report struct {
	Schema         string    `json:"schema"`
	Valid          bool      `json:"valid"`
	InvalidReasons []string  `json:"invalid_reasons"`
	Engines        []*Entry  `json:"engines"`
	Beside         []*Beside `json:"beside_slow_handlers"`
}

// Entry is one engine's result in the race for speed.
type Entry struct {
	Engine    string   `json:"engine"`
	PingPong  Lap      `json:"conns_100_depth_1"`
	Pipelined Lap      `json:"conns_100_depth_64"`
	IdleBytes *float64 `json:"bytes_per_idle_connection"`
}

// Lap is one load on one engine. It has no figures if its result was not valid, and no times that were the
// generator's own.
type Lap struct {
	Rate      *float64 `json:"rate"`
	P50       *float64 `json:"p50_us"`
	P99       *float64 `json:"p99_us"`
	ServerCPU *float64 `json:"server_cpu_us_per_request"`
	Ratio     *float64 `json:"ratio_to_direct"` // of the request rates
}

// lapOf returns the figures of a load that count.
func lapOf(r *load.Result, used *load.Server) Lap {
	if !r.Valid {
		return Lap{}
	}
	l := Lap{Rate: r.Rate, P50: r.Latency.P50, P99: r.Latency.P99}
	if used != nil {
		l.ServerCPU = used.CPUPerRequest
	}
	return l
}

// besideOf returns the times, from the write of a request, of a load that counts.
func besideOf(name string, r *load.Result) *Beside {
	if !r.Valid {
		return &Beside{Engine: name}
	}
	return &Beside{Engine: name, Rate: r.Rate, P50: r.Service.P50, P99: r.Service.P99, P999: r.Service.P999}
}

// Beside is the latency of other connections while slow handlers run, measured from the
// write of a request. It has no figures if its result was not valid.
type Beside struct {
	Engine string   `json:"engine"`
	Rate   *float64 `json:"rate"`
	P50    *float64 `json:"p50_us"`
	P99    *float64 `json:"p99_us"`
	P999   *float64 `json:"p999_us"`
	ToNet  *float64 `json:"p99_ratio_to_net"`
}

// compare fills in the ratios: request rates relative to the first server, net-direct, and
// latencies next to slow handlers relative to net-buffered.
func (r *Report) compare() {
	for _, e := range r.Engines {
		e.PingPong.Ratio = ratio(e.PingPong.Rate, r.Engines[0].PingPong.Rate)
		e.Pipelined.Ratio = ratio(e.Pipelined.Rate, r.Engines[0].Pipelined.Rate)
	}
	plain := r.beside(withBuffers)
	for _, b := range r.Beside {
		b.ToNet = ratio(b.P99, plain.P99)
	}
}

// ratio returns a divided by b, if both exist.
func ratio(a, b *float64) *float64 {
	if a == nil || b == nil || *b == 0 {
		return nil
	}
	return new(*a / *b)
}

// beside returns a server's result in the second race; without figures if it did not
// take part.
func (r *Report) beside(name string) *Beside {
	for _, b := range r.Beside {
		if b.Engine == name {
			return b
		}
	}
	return new(Beside)
}

// Text formats both races.
func (r *Report) Text(w io.Writer) {
	figure.WriteValidity(w, r.Valid, r.InvalidReasons)
	r.writeSpeed(w)
	r.writeBeside(w)
}

// writeSpeed prints what other programs on the machine change least first.
func (r *Report) writeSpeed(w io.Writer) {
	fmt.Fprint(w, "\nconnections × depth: 100 × 64 is 100 connections with 64 requests in flight each.\n\n")
	cost := figure.Table{Head: []string{"engine", "memory per active connection", "server CPU/request 100 × 1", "100 × 64"}, Right: "-rrr"}
	for _, e := range r.Engines {
		cost.Add(e.Engine, figure.OrNone(e.IdleBytes, figure.Bytes), figure.OrNone(e.PingPong.ServerCPU, figure.Micros), figure.OrNone(e.Pipelined.ServerCPU, figure.Micros))
	}
	cost.Text(w)
	fmt.Fprintln(w)
	speed := figure.Table{Head: []string{"load", "engine", "requests/s", "to net-direct", "p50", "p99"}, Right: "--rrrr"}
	for _, shape := range []struct {
		name string
		of   func(*Entry) Lap
	}{
		{"100 × 1", func(e *Entry) Lap { return e.PingPong }},
		{"100 × 64", func(e *Entry) Lap { return e.Pipelined }},
	} {
		for i, e := range r.Engines {
			lap, name := shape.of(e), shape.name
			if i > 0 {
				name = ""
			}
			speed.Add(name, e.Engine, figure.OrNone(lap.Rate, figure.Grouped), figure.OrNone(lap.Ratio, figure.Times),
				figure.OrNone(lap.P50, figure.Micros), figure.OrNone(lap.P99, figure.Micros))
		}
	}
	speed.Text(w)
	if why := r.Withheld(); why != "" {
		fmt.Fprintf(w, "\n%s\n", why)
	}
}

// Withheld says why times are missing; empty: none is.
func (r *Report) Withheld() string {
	for _, e := range r.Engines {
		for _, l := range []Lap{e.PingPong, e.Pipelined} {
			if l.Rate != nil && (l.P50 == nil || l.P99 == nil) {
				return "Times that are missing were mostly the generator's own delay: it shares the processors with the servers."
			}
		}
	}
	return ""
}

func (r *Report) writeBeside(w io.Writer) {
	fmt.Fprintf(w, "\nslow handlers: %d connections whose handler sleeps %d ms per request, and %d others\n"+
		"that send %s requests/s together. Latency of the others:\n\n",
		slowConns, slowSleep.Milliseconds(), otherConns, figure.Grouped(otherRate))
	table := figure.Table{Head: []string{"engine", "p50", "p99", "p99.9"}, Right: "-rrr"}
	for _, e := range r.Beside {
		table.Add(e.Engine, figure.OrNone(e.P50, figure.Micros), figure.OrNone(e.P99, figure.Micros), figure.OrNone(e.P999, figure.Micros))
	}
	table.Text(w)
	events, inline := r.beside(engine.Events(engine.Auto).Name()), r.beside(engine.Events(engine.Inline).Name())
	if events.ToNet != nil && inline.ToNet != nil {
		fmt.Fprintf(w, "\n%s: p99 %s = %s %s; %s, which waits for handlers: %s = %s %[4]s\n",
			events.Engine, figure.Micros(*events.P99), figure.Times(*events.ToNet), withBuffers,
			inline.Engine, figure.Micros(*inline.P99), figure.Times(*inline.ToNet))
	}
}
