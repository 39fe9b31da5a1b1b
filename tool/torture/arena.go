package torture

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hone-go/hone/tool/figure"
)

// Limits bound what one scenario does.
type Limits struct {
	Conns  int           // connections that it has open at once; more make Dial fail. Zero: 1,000
	Few    int           // connections of a scenario that waits. Zero: 40
	Bytes  int64         // that it sends in all; more make Write fail. Zero: 256 MiB
	Within time.Duration // in which it ends, unless it waits. Zero: 10 s
	Wait   time.Duration // for time-outs of the server. Zero: 75 s
	Answer time.Duration // in which an answer counts as given, at the least. Zero: 2 s
	Gone   time.Duration // in which the server has closed what its clients have left. Zero: 5 s
	Stop   time.Duration // in which an owned server ends after SIGTERM. Zero: 30 s
}

func (l Limits) complete() Limits {
	return Limits{
		Conns: cmp.Or(l.Conns, 1000), Few: cmp.Or(l.Few, 40), Bytes: cmp.Or(l.Bytes, 256<<20),
		Within: cmp.Or(l.Within, 10*time.Second), Wait: cmp.Or(l.Wait, 75*time.Second), Answer: cmp.Or(l.Answer, 2*time.Second),
		Gone: cmp.Or(l.Gone, 5*time.Second), Stop: cmp.Or(l.Stop, 30*time.Second),
	}
}

// Arena is what one attack has: its target, and bounds. Its methods may be called concurrently,
// except for Rand's.
type Arena struct {
	Limits
	// Rand depends on the seed and the scenario's name only.
	Rand *rand.Rand
	// Server is the server's process; nil unless it is watched or owned.
	Server *Process

	target *target
	spins  float64 // share of a CPU that the process does not use beside the bystanders
	mu     sync.Mutex
	open   map[*Conn]struct{}
	notes  []string
	sent   atomic.Int64
}

// Conn is a connection of an attack.
type Conn struct {
	net.Conn
	tcp    net.Conn // below TLS
	arena  *Arena
	client client
	free   bool      // it is a newcomer of Healthy, and not bounded by what the attack may do
	until  time.Time // when the scenario ends; zero: not limited
	rest   []byte    // of requests, which fill has not sent yet
}

var (
	errTooMany = errors.New("torture: the scenario has as many connections as it may")
	errTooMuch = errors.New("torture: the scenario has sent as much as it may")
)

// Open opens a connection that is ready for requests, with TLS if the target speaks it, and with
// WebSocket's handshake.
func (a *Arena) Open(ctx context.Context) (*Conn, error) {
	return a.keep(ctx, false, a.target.Dial)
}

// Dial opens a connection on which nothing has been sent yet, except for TLS's handshake.
func (a *Arena) Dial(ctx context.Context) (*Conn, error) {
	return a.keep(ctx, false, func(ctx context.Context) (net.Conn, error) { return a.target.dial(ctx, true) })
}

// DialPlain opens a connection without TLS, also to a target that speaks it.
func (a *Arena) DialPlain(ctx context.Context) (*Conn, error) {
	return a.keep(ctx, false, func(ctx context.Context) (net.Conn, error) { return a.target.dial(ctx, false) })
}

// opener is Arena's Open, Dial or DialPlain.
type opener func(*Arena, context.Context) (*Conn, error)

// Crowd opens n connections with open, one after the other, and returns those that it got: fewer
// with an error.
func (a *Arena) Crowd(ctx context.Context, n int, open opener) ([]*Conn, error) {
	var crowd []*Conn
	for len(crowd) < n {
		c, err := open(a, ctx)
		if err != nil {
			return crowd, fmt.Errorf("connection %d of %d: %s", len(crowd)+1, n, plain(err))
		}
		crowd = append(crowd, c)
	}
	return crowd, nil
}

// each opens n connections, one after the other, and does something on each until that finds
// something; when nothing was found, it returns done.
func (a *Arena) each(ctx context.Context, n int, open opener, done Finding, do func(i int, c *Conn) Finding) Finding {
	for i := range n {
		c, err := open(a, ctx)
		if err != nil {
			return unknown("after %d of %d connections: %s", i, n, plain(err))
		}
		found := do(i, c)
		if ctx.Err() != nil {
			return unknown("its time was over after %d of %d connections", i+1, n)
		}
		if found != (Finding{}) {
			return found
		}
	}
	return done
}

// keep opens a connection, which is closed when the attack has ended.
func (a *Arena) keep(ctx context.Context, free bool, dial func(context.Context) (net.Conn, error)) (*Conn, error) {
	c := &Conn{arena: a, free: free}
	a.mu.Lock()
	full := len(a.open) >= a.Conns && !c.free
	if !full {
		a.open[c] = struct{}{}
	}
	a.mu.Unlock()
	if full {
		return nil, errTooMany
	}
	attempt, cancel := context.WithTimeout(ctx, a.Answer)
	defer cancel()
	nc, err := dial(attempt)
	if err != nil {
		a.forget(c)
		return nil, err
	}
	c.Conn, c.tcp, c.client = nc, nc, a.target.client()
	if secured, ok := nc.(*tls.Conn); ok {
		c.tcp = secured.NetConn()
	}
	if deadline, ok := ctx.Deadline(); ok {
		c.until, err = deadline, nc.SetDeadline(deadline)
	}
	return c, err
}

func (a *Arena) forget(c *Conn) {
	a.mu.Lock()
	delete(a.open, c)
	a.mu.Unlock()
}

// close closes what an attack has left open.
func (a *Arena) close() {
	a.mu.Lock()
	left := a.open
	a.open = map[*Conn]struct{}{}
	a.mu.Unlock()
	for c := range left {
		if c.tcp != nil {
			c.tcp.Close() // below TLS: closing that may wait for a peer that does not read
		}
	}
}

// Request appends one whole good request, as bystanders send it: for HTTP the target's head and
// body, for WebSocket a masked message.
func (c *Conn) Request(dst []byte) []byte { return c.client.request(dst) }

// Ask sends a good request and checks its answer, which must come within Limits.Answer. It may be
// called again on the same connection.
func (c *Conn) Ask() error {
	if _, err := c.Write(c.Request(nil)); err != nil {
		return err
	}
	return c.Answers(1)
}

// Answers reads the answers to n requests that Request made, and checks them. Each must come within
// Limits.Answer of the one before.
func (c *Conn) Answers(n int) error {
	for i := range n {
		limit := time.Now().Add(c.arena.Answer)
		if !c.until.IsZero() && c.until.Before(limit) {
			limit = c.until
		}
		err := c.SetReadDeadline(limit)
		if err == nil {
			err = c.client.answer(c.Conn)
		}
		if err != nil {
			return fmt.Errorf("answer %d of %d: %w", i+1, n, err)
		}
	}
	return nil
}

// Write sends p, as far as the scenario may send as much.
func (c *Conn) Write(p []byte) (int, error) {
	if !c.free && c.arena.sent.Add(int64(len(p))) > c.arena.Bytes {
		return 0, errTooMuch
	}
	return c.Conn.Write(p)
}

// Close closes the connection.
func (c *Conn) Close() error {
	c.arena.forget(c)
	return c.tcp.Close()
}

// CloseWrite closes the sending side, after TLS's closing message.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Reset closes the connection with a TCP reset.
func (c *Conn) Reset() error {
	if tcp, ok := c.tcp.(*net.TCPConn); ok {
		if err := tcp.SetLinger(0); err != nil {
			return err
		}
	}
	return c.Close()
}

// Healthy asks the server one good request on a new connection, whatever the attack may still do.
func (a *Arena) Healthy(ctx context.Context) error {
	c, err := a.keep(ctx, true, a.target.Dial)
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Ask()
}

// serves returns a finding if newcomers are not served when or where the words say.
func (a *Arena) serves(ctx context.Context, format string, args ...any) Finding {
	if err := a.Healthy(ctx); err != nil {
		return falls("%s, newcomers are not served: %s", fmt.Sprintf(format, args...), plain(err))
	}
	return Finding{}
}

const mostNotes = 20

// Note adds a line of evidence, up to a bound.
func (a *Arena) Note(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.notes) < mostNotes {
		a.notes = append(a.notes, fmt.Sprintf(format, args...))
	}
}

// Closings reads from connections until the server has closed each, or ctx or Wait ends, and
// returns how long each took; negative: it is still open. What the server sends is discarded.
func (a *Arena) Closings(ctx context.Context, crowd []*Conn) []time.Duration {
	began := time.Now()
	took := make([]time.Duration, len(crowd))
	until := began.Add(a.Wait + a.Wait/50) // a server's limit may be the same
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(until) {
		until = deadline
	}
	stop := context.AfterFunc(ctx, func() {
		for _, c := range crowd {
			_ = c.SetReadDeadline(time.Unix(1, 0)) // fails only if it is closed
		}
	})
	defer stop()
	var readers sync.WaitGroup
	for i, c := range crowd {
		readers.Go(func() {
			took[i] = -1
			if c.SetReadDeadline(until) != nil {
				return
			}
			_, err := io.Copy(io.Discard, io.LimitReader(c.Conn, a.Bytes))
			if isTimeout(err) {
				return
			}
			took[i] = time.Since(began)
		})
	}
	readers.Wait()
	return took
}

// closed is the finding about connections that a server should have closed. What names them, in
// the plural.
func (a *Arena) closed(what string, took []time.Duration) Finding {
	var times []time.Duration
	for _, d := range took {
		if d >= 0 {
			times = append(times, d)
		}
	}
	if len(times) < len(took) {
		return unknown("%d of %d %s are still open after %v: no limit up to then", len(took)-len(times), len(took), what, a.Wait)
	}
	return survives("closed %d %s after %s to %s", len(took), what, elapsed(slices.Min(times)), elapsed(slices.Max(times)))
}

func elapsed(d time.Duration) string { return figure.Micros(float64(d) / 1e3) }
