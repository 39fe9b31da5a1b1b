package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hone-go/hone/articles/avatar"
	"github.com/hone-go/hone/bench/drive"
	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/bench/report"
	"github.com/hone-go/hone/tool/child"
)

const (
	healthyRate  = 500 // requests a second, over healthyConns
	healthyConns = 10
	floods       = 8 // clients that ask for ever new names
)

// The kernel takes a CPU from real-time processes for 50 ms when others have waited for it for
// nearly a second. So a lap with its warm-up is shorter, and a rest follows it.
const (
	longestLap = 500 * time.Millisecond
	rest       = 300 * time.Millisecond
)

// What the flood may do to healthy clients, and healthy clients to the flood.
const (
	mostSlower = 2.0 // times the server's p99 without it
	leastDrawn = 0.7 // of the pictures that are drawn without them
)

// flooding is an order to the process that floods a server, and what it has seen.
type flooding struct {
	Addr  string        `json:"addr"`
	First int           `json:"first"` // the number of the first name; each is new
	For   time.Duration `json:"for"`
}

type flooded struct {
	Statuses map[int]int   `json:"statuses"` // 0: no answer
	Took     time.Duration `json:"took"`
}

// flood measures how long healthy clients wait for a cached picture, alone and beside the
// flood, and how many new pictures are drawn, alone and beside healthy clients. The server
// has one CPU, which the flood keeps busy. The healthy clients share the other with the flood's,
// so their p99 includes how long they themselves wait for it; the server's part does not.
func flood(ctx context.Context, s settings) error {
	cpus, err := fleet.CPUs()
	if err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	spawn := func(as string) (*child.Child, error) {
		return fleet.Spawn(ctx, cpus[len(cpus)-1], []string{"GOMAXPROCS=1"}, program, as)
	}
	asker, err := spawn("-client")
	if err != nil {
		return err
	}
	defer asker.Stop()
	flooder, err := spawn("-flooder")
	if err != nil {
		return err
	}
	defer flooder.Stop()
	e, err := named(s.server)
	if err != nil {
		return err
	}
	c, end, err := start(ctx, e, cpus[0])
	if err != nil {
		return err
	}
	defer end()
	s.lap = min(s.lap, longestLap)
	c.order.Load.Conns, c.order.Load.Rate, c.order.Load.Warmup, c.order.Load.Window = healthyConns, healthyRate, s.warm, s.lap
	c.order.Load.Stamps = true
	for priority, pid := range []int{flooder.PID, c.order.Load.PID, asker.PID} {
		if err := fleet.Prefer(pid, priority+1); err != nil {
			fmt.Printf("without real-time priority (%v), other programs on this machine count\n", err)
			break
		}
	}
	f := &floodRun{c: c, asker: asker, flooder: flooder, settings: s, statuses: map[int]int{}}
	for round := range s.rounds {
		laps := []func(context.Context) error{f.alone, f.undisturbed, f.together}
		for i := range laps {
			if err := errors.Join(laps[(i+round)%len(laps)](ctx), fleet.Wait(ctx, rest)); err != nil {
				return err
			}
		}
	}
	return f.report()
}

// floodRun is what the laps have shown, one value a round.
type floodRun struct {
	settings
	c              *contender
	asker, flooder *child.Child
	next           int // the number of the next new name
	statuses       map[int]int

	alones, besides         []*drive.Figure // of the healthy
	drawnAlone, drawnBeside []float64       // a second
}

// alone is healthy clients without a flood.
func (f *floodRun) alone(ctx context.Context) error {
	got, err := f.healthy(ctx)
	f.alones = append(f.alones, got)
	return err
}

// undisturbed is a flood without healthy clients.
func (f *floodRun) undisturbed(ctx context.Context) error {
	rate, err := f.flood(ctx)
	f.drawnAlone = append(f.drawnAlone, rate)
	return err
}

// together is both.
func (f *floodRun) together(ctx context.Context) error {
	var rate float64
	var floodErr error
	var both sync.WaitGroup
	both.Go(func() {
		// The healthy clients connect first. While a server with real-time priority is busy, Go's
		// sysmon cannot interrupt it to have new connections accepted.
		if floodErr = fleet.Wait(ctx, f.warm/2); floodErr == nil {
			rate, floodErr = f.flood(ctx)
		}
	})
	got, err := f.healthy(ctx)
	both.Wait()
	if err := errors.Join(err, floodErr); err != nil {
		return err
	}
	f.besides = append(f.besides, got)
	f.drawnBeside = append(f.drawnBeside, rate)
	return nil
}

// healthy is one lap of healthy clients.
func (f *floodRun) healthy(ctx context.Context) (*drive.Figure, error) {
	line, err := json.Marshal(f.c.order)
	if err != nil {
		return nil, err
	}
	var r drive.Report
	if err := f.asker.Ask(ctx, string(line), patience, &r); err != nil {
		return nil, err
	}
	if r.Error != "" || r.Load == nil || r.Load.P99 == nil || r.Load.ServerP99 == nil {
		return nil, fmt.Errorf("healthy requests failed: %s %+v", r.Error, r.Load)
	}
	return r.Load, nil
}

// flood is one lap of the flood, from the middle of the healthy clients' warm-up to behind their
// window.
func (f *floodRun) flood(ctx context.Context) (rate float64, err error) {
	line, err := json.Marshal(flooding{Addr: f.c.addr, First: f.next, For: f.warm/2 + f.lap + 100*time.Millisecond})
	if err != nil {
		return 0, err
	}
	var got flooded
	if err := f.flooder.Ask(ctx, string(line), patience, &got); err != nil {
		return 0, fmt.Errorf("%w: %s", err, f.flooder.Said())
	}
	for code, n := range got.Statuses {
		f.next += n
		f.statuses[code] += n
	}
	f.next += floods
	return float64(got.Statuses[http.StatusOK]) / got.Took.Seconds(), nil
}

func (f *floodRun) report() error {
	memory, err := fleet.PeakOf(f.c.order.Load.PID)
	if err != nil {
		return err
	}
	most := avatar.Limits{}.Memory()
	ratios := func(a, b []float64) []float64 {
		all := make([]float64, len(a))
		for i := range a {
			all[i] = a[i] / b[i]
		}
		return all
	}
	of := func(laps []*drive.Figure, value func(*drive.Figure) *float64) []float64 {
		var all []float64
		for _, l := range laps {
			all = append(all, *value(l))
		}
		return all
	}
	serverP99 := func(l *drive.Figure) *float64 { return l.ServerP99 }
	slower := report.SpreadOf(ratios(of(f.besides, serverP99), of(f.alones, serverP99))).Median
	drawn := report.SpreadOf(ratios(f.drawnBeside, f.drawnAlone)).Median
	failed := 0
	for code, n := range f.statuses {
		if code != http.StatusOK {
			failed += n
		}
	}
	fmt.Printf("%s: %d healthy requests a second, %d clients that ask for new names, %d rounds of %v\n\n", f.c.name, healthyRate, floods, f.rounds, f.lap)
	for _, row := range []struct {
		name  string
		value func(*drive.Figure) *float64
	}{
		{"p50, server's part", func(l *drive.Figure) *float64 { return l.ServerP50 }},
		{"p99, server's part", serverP99},
		{"p50", func(l *drive.Figure) *float64 { return l.P50 }},
		{"p99", func(l *drive.Figure) *float64 { return l.P99 }},
	} {
		alone, beside := of(f.alones, row.value), of(f.besides, row.value)
		fmt.Printf("healthy %-18s alone %.0f µs (%.0f–%.0f), beside the flood %.0f µs (%.0f–%.0f)\n", row.name,
			report.SpreadOf(alone).Median, slices.Min(alone), slices.Max(alone), report.SpreadOf(beside).Median, slices.Min(beside), slices.Max(beside))
	}
	fmt.Printf("new pictures alone %.0f a second, beside healthy clients %.0f\n", report.SpreadOf(f.drawnAlone).Median, report.SpreadOf(f.drawnBeside).Median)
	fmt.Printf("answers to the flood %v; memory at most %d MiB\n\n", f.statuses, memory>>20)
	var missed error
	verdict := func(reached bool) string {
		if reached {
			return "reached"
		}
		missed = errMissed
		return "MISSED"
	}
	fmt.Printf("server's p99 beside the flood: %.2f of the p99 alone, at most %.1f wanted: %s\n", slower, mostSlower, verdict(1/slower >= f.least(1/mostSlower)))
	fmt.Printf("new pictures: %.2f of those without healthy clients, at least %.1f wanted: %s\n", drawn, leastDrawn, verdict(drawn >= f.least(leastDrawn)))
	fmt.Printf("failed requests: %d, none wanted: %s\n", failed, verdict(failed == 0))
	fmt.Printf("memory: %d MiB, at most %d wanted: %s\n", memory>>20, most>>20, verdict(memory <= most))
	return missed
}

// obeyFlooding floods servers, as the lines of in say.
func obeyFlooding(ctx context.Context, in io.Reader, out io.Writer) error {
	lines, answers := bufio.NewScanner(in), json.NewEncoder(out)
	for lines.Scan() {
		var f flooding
		if err := json.Unmarshal(lines.Bytes(), &f); err != nil {
			return err
		}
		got, began := flooded{Statuses: map[int]int{}}, time.Now()
		limited, cancel := context.WithTimeout(ctx, f.For)
		var asking sync.WaitGroup
		var mu sync.Mutex
		for i := range floods {
			asking.Go(func() {
				seen := f.ask(limited, i)
				mu.Lock()
				defer mu.Unlock()
				for code, n := range seen {
					got.Statuses[code] += n
				}
			})
		}
		asking.Wait()
		cancel()
		got.Took = time.Since(began)
		if err := answers.Encode(got); err != nil {
			return err
		}
	}
	return lines.Err()
}

// ask asks for a new picture as soon as the last one is there, until ctx ends, and counts
// what was answered.
func (f flooding) ask(ctx context.Context, at int) map[int]int {
	seen := map[int]int{}
	conn, err := net.Dial("tcp", f.Addr)
	if err != nil {
		seen[0]++
		return seen
	}
	defer conn.Close()
	if conn.SetDeadline(time.Now().Add(f.For+patience)) != nil {
		seen[0]++
		return seen
	}
	buf := make([]byte, 64<<10)
	for n := f.First + at; ctx.Err() == nil; n += floods {
		code, err := askNew(conn, buf, n)
		seen[code]++
		if err != nil {
			return seen
		}
	}
	return seen
}

// askNew asks for a picture that nobody has asked for: four letters of 26, and a size. It
// reads no more of the answer than it must: what the client needs, others do not get.
func askNew(conn net.Conn, buf []byte, n int) (status int, err error) {
	letter := func(i int) byte { return 'a' + byte(i%26) }
	request := fmt.Appendf(buf[:0], "GET /api/?name=%c%d+%c+%c+%c&length=4&size=%d HTTP/1.1\r\nHost: x\r\n\r\n",
		letter(n), n, letter(n/26), letter(n/676), letter(n/17576), 16+n*7919%497)
	if _, err := conn.Write(request); err != nil {
		return 0, err
	}
	for got := 0; ; {
		m, err := conn.Read(buf[got:])
		if err != nil {
			return 0, err
		}
		got += m
		head, body, whole := bytes.Cut(buf[:got], []byte("\r\n\r\n"))
		if !whole {
			continue
		}
		_, text, _ := bytes.Cut(head, []byte("\r\nContent-Length: "))
		text, _, _ = bytes.Cut(text, []byte("\r"))
		length, err := strconv.Atoi(string(text))
		if err != nil {
			return 0, err
		}
		if len(body) < length {
			continue
		}
		status, err := strconv.Atoi(string(head[len("HTTP/1.1 "):][:3]))
		return status, err
	}
}
