// Package drive is the client of every measurement: a process that opens
// connections and loads a server with package client, as the lines of its standard
// input say. Every answer is verified: its id, its result and its content.
package drive

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/hone-go/hone/bench/client"
	"github.com/hone-go/hone/bench/web"
	"github.com/hone-go/hone/wire"
)

// Client is the package that loads the servers, for those who store results.
const Client = "bench/client"

// Order is one line of a client's standard input, as JSON.
type Order struct {
	Addr string `json:"addr"`
	Ask  string `json:"ask"`  // the name of a web.Question, web.Socket or web.Stream; empty: hone's frames
	Open int    `json:"open"` // connections to have served once and to keep open, in all
	Load *Load  `json:"load"` // nil: none
	// Crowd are connections of WebSocket, or event streams, to keep open that listen, in all.
	Crowd  int     `json:"crowd"`
	Gather *Gather `json:"gather"` // what the crowd is to have read; nil: nothing
}

// Load is how to load the server. Durations are nanoseconds.
type Load struct {
	PID    int           `json:"pid"` // the server's process
	Conns  int           `json:"conns"`
	Depth  int           `json:"depth"`
	Rate   float64       `json:"rate"` // requests a second; 0: the next as soon as an answer is there
	Once   bool          `json:"once"` // a connection for each request
	Warmup time.Duration `json:"warmup"`
	Window time.Duration `json:"window"`
}

// Report is the answer to an order.
type Report struct {
	Error string  `json:"error"` // why there are no figures; empty: none
	Open  int     `json:"open"`
	Load  *Figure `json:"load"` // nil without a load
}

// Figure is what one load has shown.
type Figure struct {
	Requests int64 `json:"requests"`
	// Figures are those of a table.Sample: cpu_us is of the server's process, user and system, for a request; rate,
	// requests answered in a second; p50_us, p99_us and p999_us count from the intended moment where there is a
	// rate. client_busy and server_busy are of one CPU, the client's without
	// what it spent on looking for answers because a request was about to be due.
	Figures map[string]float64 `json:"figures"`
	Doubts  []string           `json:"doubts"` // why the client does not vouch for them; empty: it does
}

// content is what a request carries.
const content = "sixteen letters."

// openTime is how long it may take to open a connection and have it served.
const openTime = 10 * time.Second

// process is what a client process keeps from one order to the next.
type process struct {
	conns     []net.Conn
	listeners client.Crowd
}

// Obey carries out the orders of in, one after the other, until it ends.
func Obey(ctx context.Context, in io.Reader, out io.Writer) error {
	c := new(process)
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

func (c *process) close() {
	for _, conn := range c.conns {
		conn.Close()
	}
	c.listeners.Close()
}

func (c *process) obey(ctx context.Context, o Order) (r Report, err error) {
	exchange := func(conn net.Conn) error { return Exchange(conn, 1, []byte(content)) }
	plan := client.Plan{Addr: o.Addr, Content: []byte(content)}
	switch {
	case o.Ask == "", o.Ask == web.Stream:
	case o.Ask == web.Socket:
		plan.WS, plan.Content = &client.WS{Path: web.EchoPath}, web.Echoed()
		exchange = ExchangeWS
	default:
		q, err := web.Named(o.Ask)
		if err != nil {
			return r, err
		}
		plan.HTTP = askFor(q)
		exchange = func(conn net.Conn) error {
			if q.TLS {
				conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) // the server's certificate is of today
			}
			return ExchangeHTTP(conn, q)
		}
	}
	if err := c.crowd(ctx, o); err != nil {
		return r, err
	}
	for len(c.conns) < o.Open {
		conn, err := served(ctx, o.Addr, exchange)
		if err != nil {
			return r, fmt.Errorf("connection %d: %w", len(c.conns)+1, err)
		}
		c.conns = append(c.conns, conn)
	}
	r.Open = len(c.conns)
	if o.Load != nil {
		r.Load, err = o.Load.run(ctx, plan)
	}
	return r, err
}

// served opens a connection and has one request answered on it.
func served(ctx context.Context, addr string, exchange func(net.Conn) error) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: openTime}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if err = conn.SetDeadline(time.Now().Add(openTime)); err == nil {
		err = exchange(conn)
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
	return wire.Append(dst, wire.Packet{Command: wire.Submit, ID: id, Content: content})
}

// ReadAnswer reads the answer that a request must have.
func ReadAnswer(in io.Reader, id uint64, content []byte) error {
	want := wire.Append(nil, wire.Packet{Command: wire.SubmitAck, ID: id, Content: content})
	got := make([]byte, len(want))
	if _, err := io.ReadFull(in, got); err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("the server answers %x instead of %x", got[:min(64, len(got))], want[:min(64, len(want))])
	}
	return nil
}

// run loads the server once, with what the plan says to ask.
func (l *Load) run(ctx context.Context, p client.Plan) (*Figure, error) {
	edges := window{pid: l.PID}
	p.Conns, p.Depth, p.Rate = l.Conns, l.Depth, l.Rate
	p.Warmup, p.Window, p.Opened, p.Closed = l.Warmup, l.Window, edges.opens, edges.closes
	run := client.Run
	if l.Once {
		run = client.RunOnce
	}
	r, err := run(ctx, p)
	switch {
	case err != nil:
		return nil, err
	case r.Wrong > 0 || r.Missing > 0 && l.Rate == 0:
		return nil, fmt.Errorf("%d answers are wrong and %d are missing, beside %d within the window", r.Wrong, r.Missing, r.Requests)
	}
	return edges.figure(r), nil
}
