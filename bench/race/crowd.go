package race

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/bench/service"
	"github.com/hone-go/hone/bench/table"
	"github.com/hone-go/hone/bench/web"
)

// gatherTime is for all of a crowd to have what was pushed.
const gatherTime = 20 * time.Second

// Crowd is connections that only listen: of WebSocket, or event streams.
type Crowd struct {
	Streams bool
	all     []listener
}

// listener is a connection, and what a push comes out of.
type listener struct {
	net.Conn
	in io.Reader
}

// Grow opens connections until there are n.
func (c *Crowd) Grow(ctx context.Context, addr string, n int) error {
	for len(c.all) < n {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		one := listener{Conn: conn}
		c.all = append(c.all, one)
		if err := conn.SetDeadline(time.Now().Add(gatherTime)); err != nil {
			return err
		}
		if c.all[len(c.all)-1].in, err = c.begin(conn); err != nil {
			return fmt.Errorf("connection %d of %d: %w", len(c.all), n, err)
		}
	}
	return nil
}

// begin says what a listener says at first, and reads what it is told.
func (c *Crowd) begin(conn net.Conn) (io.Reader, error) {
	if !c.Streams {
		return conn, web.Upgrade(conn, web.CrowdPath)
	}
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n", web.CrowdPath); err != nil {
		return nil, err
	}
	answer, err := http.ReadResponse(bufio.NewReaderSize(conn, 512), nil)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		return nil, errors.New("the server answers " + answer.Status)
	}
	return answer.Body, expect(answer.Body, web.Event([]byte(web.Welcome)))
}

// Await waits until the server pushes to as many connections as there are here.
func (c *Crowd) Await(ctx context.Context, server *fleet.Server) error {
	n := 0
	for till := time.Now().Add(gatherTime); time.Now().Before(till); {
		var err error
		if n, err = server.Count(ctx); err != nil || n == len(c.all) {
			return err
		}
		if err := fleet.Wait(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	return fmt.Errorf("the server's crowd has %d connections instead of %d", n, len(c.all))
}

// Gather reads what each connection has been pushed, which must be message.
func (c *Crowd) Gather(message []byte) error {
	want := web.Event(message)
	if !c.Streams {
		want = append(binary.BigEndian.AppendUint16([]byte{0x82, 126}, uint16(len(message))), message...)
	}
	till := time.Now().Add(gatherTime)
	for i, one := range c.all {
		err := one.SetReadDeadline(till)
		if err == nil {
			err = expect(one.in, want)
		}
		if err != nil {
			return fmt.Errorf("connection %d: %w", i+1, err)
		}
	}
	return nil
}

// expect reads exactly what is wanted.
func expect(in io.Reader, want []byte) error {
	got := make([]byte, len(want))
	if _, err := io.ReadFull(in, got); err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("the server sends %.80q instead of %.80q", got, want)
	}
	return nil
}

// Close closes the connections.
func (c *Crowd) Close() {
	for _, one := range c.all {
		one.Close()
	}
	c.all = nil
}

// crowdRow pushes a message to a crowd: what that costs for each recipient, and the memory of one.
func crowdRow(name string, servers []fleet.Entry, size, loops int, streams bool) Row {
	const pushes = 30 // whose CPU is measured
	measure := func(ctx context.Context, g *Ground, e fleet.Entry) ([]table.Sample, error) {
		size, times := size, pushes
		if g.Small() {
			size, times = 1000, 3
		}
		server, err := fleet.Start(ctx, g.Dir, e, fleet.How{CPU: fleet.AnyCPU, Loops: loops})
		if err != nil {
			return nil, err
		}
		defer server.Stop()
		crowd := &Crowd{Streams: streams}
		defer crowd.Close()
		push := func() error {
			if err := server.Push(ctx); err != nil {
				return err
			}
			return crowd.Gather(service.Message())
		}
		var memory [2]fleet.Memory
		for i, n := range []int{warmConns, size} {
			if err := crowd.Grow(ctx, server.Addr, n); err != nil {
				return nil, err
			}
			err := crowd.Await(ctx, server)
			if err == nil {
				err = push() // what grows with the first is not counted
			}
			if err == nil {
				memory[i], err = server.Collect(ctx, e)
			}
			if err != nil {
				return nil, err
			}
		}
		cpu, others, err := watch(server.PID, func() (err error) {
			for n := 0; n < times && err == nil; n++ {
				err = push()
			}
			return err
		})
		peak, errPeak := fleet.PeakOf(server.PID)
		if err := errors.Join(err, errPeak); err != nil {
			return nil, err
		}
		return []table.Sample{{Figures: map[string]float64{
			"cpu_us": float64(cpu) / 1e3 / float64(times*size), "peak_bytes": float64(peak), "others": others,
			"per_conn_bytes": float64(memory[1].Anonymous-memory[0].Anonymous) / float64(size-warmConns),
		}}}, nil
	}
	what := "WebSockets"
	if streams {
		what = "open event streams"
	}
	return Row{
		Name: name, Client: "bench/race", Servers: servers, Rounds: steadyRounds, Round: each(measure),
		Title: func([]int) string {
			return fmt.Sprintf("%d bytes pushed to each of %d %s, not pinned, event loops: %d; and the memory of one", service.PushedSize, size, what, loops)
		},
	}
}
