// Package drive is the client of every measurement: a process that opens
// connections and loads a server with package load, as the lines of its standard
// input say. Every answer is verified: its id, its result and its content.
package drive

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/hone-go/hone/bench/service"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/wire"
)

// Order is one line of a client's standard input, as JSON.
type Order struct {
	Addr string `json:"addr"`
	Open int    `json:"open"` // connections to have served once and to keep open, in all
	Load *Load  `json:"load"` // beside them; nil: none
}

// Load is how to load the server. Durations are nanoseconds.
type Load struct {
	PID    int           `json:"pid"` // the server's process
	Conns  int           `json:"conns"`
	Depth  int           `json:"depth"`
	Rate   float64       `json:"rate"` // requests a second; 0: the next as soon as an answer is there
	Warmup time.Duration `json:"warmup"`
	Window time.Duration `json:"window"`
	// Sleepers are more connections, whose requests sleep in the handler, one after
	// the other; they are not measured.
	Sleepers int           `json:"sleepers"`
	Sleep    time.Duration `json:"sleep"` // what their handler sleeps
}

// Report is the answer to an order.
type Report struct {
	Error string  `json:"error"` // why there are no figures; empty: none
	Open  int     `json:"open"`
	Load  *Figure `json:"load"` // nil without a load
}

// Figure is what one load has shown. What cannot be had is nil.
type Figure struct {
	Requests  int64    `json:"requests"`
	CPU       *float64 `json:"cpu_us"`        // of the server's process, user and system, for a request
	Rate      *float64 `json:"rate"`          // requests answered in a second
	P50       *float64 `json:"p50_us"`        // from the intended moment where there is a rate
	P99       *float64 `json:"p99_us"`        //
	P999      *float64 `json:"p999_us"`       //
	ClientCPU *float64 `json:"client_cpu_us"` // of the client, for a request
	Busy      *float64 `json:"client_busy"`   // the client's part of one CPU
	Others    *float64 `json:"others"`        // of one CPU, what went to neither side
	Doubts    []string `json:"doubts"`        // why load does not vouch for the result; empty: it does
}

// size is how long a request's content is.
const size = 16

// openTime is how long it may take to open a connection and have it served.
const openTime = 10 * time.Second

// client is one client process.
type client struct{ conns []net.Conn }

// Obey carries out the orders of in, one after the other, until it ends.
func Obey(ctx context.Context, in io.Reader, out io.Writer) error {
	c := new(client)
	defer c.close()
	lines, answers := bufio.NewScanner(in), json.NewEncoder(out)
	for lines.Scan() {
		var o Order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			return fmt.Errorf("an order: %w", err)
		}
		r, err := c.obey(ctx, o)
		if err != nil {
			r.Error = err.Error()
		}
		if err := answers.Encode(r); err != nil {
			return err
		}
	}
	return lines.Err()
}

func (c *client) close() {
	for _, conn := range c.conns {
		conn.Close()
	}
}

func (c *client) obey(ctx context.Context, o Order) (r Report, err error) {
	for len(c.conns) < o.Open {
		conn, err := Served(ctx, o.Addr)
		if err != nil {
			return r, fmt.Errorf("connection %d: %w", len(c.conns)+1, err)
		}
		c.conns = append(c.conns, conn)
	}
	r.Open = len(c.conns)
	if o.Load != nil {
		r.Load, err = o.Load.run(ctx, o.Addr)
	}
	return r, err
}

// Served opens a connection and has one request answered on it.
func Served(ctx context.Context, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: openTime}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if err = conn.SetDeadline(time.Now().Add(openTime)); err == nil {
		err = Exchange(conn, 1, []byte("sixteen letters."))
	}
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// Exchange sends a request and reads its answer, which must have its id and
// content.
func Exchange(conn net.Conn, id uint64, content []byte) error {
	if _, err := conn.Write(Request(nil, id, content)); err != nil {
		return err
	}
	return ReadAnswer(conn, id, content)
}

// Request appends a request to dst.
func Request(dst []byte, id uint64, content []byte) []byte {
	return wire.Standard.Append(dst, wire.Packet{Command: wire.Submit, ID: id, Content: content})
}

// ReadAnswer reads the answer that a request must have.
func ReadAnswer(in io.Reader, id uint64, content []byte) error {
	want := wire.Standard.Append(nil, wire.Packet{Command: wire.SubmitAck, ID: id, Content: content})
	got := make([]byte, len(want))
	if _, err := io.ReadFull(in, got); err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("the server answers %x instead of %x", got[:min(64, len(got))], want[:min(64, len(want))])
	}
	return nil
}

// run loads the server once.
func (l *Load) run(ctx context.Context, addr string) (*Figure, error) {
	target := load.Frames{Address: addr}
	edges := window{pid: l.PID}
	asleep, wake := context.WithCancel(ctx)
	defer wake()
	slept := make(chan error, 1)
	go func() { slept <- l.sleep(asleep, target) }()
	plan := load.Plan{
		Target: target, Conns: l.Conns, Depth: l.Depth, Rate: l.Rate, For: l.Window, Warmup: l.Warmup,
		Size: size, Echo: true, WindowOpens: edges.opens, WindowCloses: edges.closes,
	}
	if l.Sleepers > 0 {
		plan.MaxLag = l.Sleep / 10
		plan.MaxStall = time.Duration(l.Sleepers) * l.Sleep // one after the other on one loop
	}
	r, err := load.Run(ctx, plan)
	wake()
	if err = errors.Join(err, <-slept); err != nil {
		return nil, err
	}
	if n := wrong(r); n > 0 {
		return nil, fmt.Errorf("%d of %d requests went wrong: %v", n, r.Requests, r.Errors)
	}
	return edges.figure(r), nil
}

// sleep keeps the sleepers' requests coming until ctx ends.
func (l *Load) sleep(ctx context.Context, target load.Frames) error {
	if l.Sleepers == 0 {
		return nil
	}
	r, err := load.Run(ctx, load.Plan{
		Target: target, Conns: l.Sleepers, Content: []byte{service.Slow}, Echo: true,
		For: 2*(l.Warmup+l.Window) + openTime, Warmup: -1,
	})
	if err == nil && wrong(r) > 0 {
		err = fmt.Errorf("%d of %d requests that sleep went wrong: %v", r.Errors["total"], r.Requests, r.Errors)
	}
	return err
}

// wrong counts the requests that were answered as they should not be. Those whose
// answer is late or missing are in the response times, and in the result's doubts.
func wrong(r *load.Result) int64 {
	return r.Errors["total"] - r.Errors[load.Timeout.String()] - r.Errors[load.Unanswered.String()]
}
