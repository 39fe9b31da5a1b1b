package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/hone-go/hone/wire"
)

// Client submits records over one connection at a time, and sends what is not
// acknowledged again when it has to connect anew: each record is stored once, in order.
// Fill the fields, call Submit or SubmitAsync; do not change them afterwards. The zero
// value of every field but Addrs and ID is a working default. Close ends it.
//
//	c := &gateway.Client{Addrs: []string{"127.0.0.1:7100"}, ID: "meter-17"}
//	seq, err := c.Submit(ctx, []byte("21.5 °C"))
//
// Cost of a record beside its bytes: no allocations with SubmitAsync and a done that is
// made once (BenchmarkClient).
type Client struct {
	// Addrs are the gateway's servers, host:port or unix:PATH: tried in this order until
	// one answers, and from there on after it fails. Required.
	Addrs []string
	// Dial opens a connection to one of Addrs, TLS for example. Zero: a plain one.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// ID is the client's name: 1 to 64 printable ASCII characters without spaces. One
	// client has one connection: a second one with this name ends it. Required.
	ID string
	// Token proves the name where the server wants that.
	Token string
	// Level is what an acknowledgement is to mean. Zero: the most durable that the server
	// offers.
	Level Level
	// Epoch is the session to go on with: what Session has said before this program was
	// started again. Zero: a new session, which ends older ones of this name.
	Epoch uint64
	// Next is the lowest sequence number of that session that was not acknowledged; the
	// next record gets the one after the newest that is stored. Zero: 1.
	Next uint64
	// Window is how many records may be unacknowledged; further calls wait. Zero: 1024,
	// or what the server allows if that is less.
	Window int
	// DialTime bounds a connection's opening and handshake. Zero: 10 s.
	DialTime time.Duration
	// StallTime is how long the server may be silent while it owes an answer, before the
	// client connects anew. It must be longer than the server's AppendTime at its worst.
	// Zero: 40 s.
	StallTime time.Duration
	// Heartbeat is how long the connection may send nothing. Zero: a third of the
	// server's idle time, 20 s at most.
	Heartbeat time.Duration
	// Logger hears of lost connections. Zero: silence.
	Logger *slog.Logger

	once   sync.Once
	ctx    context.Context // of dials; ends with the client
	cancel context.CancelFunc
	done   chan struct{} // the client's goroutine has ended
	idle   time.Duration // between heartbeats

	mu      sync.Mutex
	changed sync.Cond // there is room, or all is acknowledged, or a session, or an end
	session Session
	most    int    // bytes of one record
	window  uint64 // of what may be unacknowledged
	slots   []slot // of records, by their sequence number modulo len(slots)
	base    uint64 // the lowest that is not acknowledged
	next    uint64 // the next one to be given away
	conn    *clientConn
	err     error // why the client ended
	closing bool
	stats   ClientStats
}

// Session is what a server has granted.
type Session struct {
	Epoch  uint64        `json:"epoch"`
	Level  Level         `json:"level"`
	Last   uint64        `json:"last"`   // the newest record that was stored when the connection began
	Expiry time.Duration `json:"expiry"` // how long the server remembers a session that is away
}

// ClientStats is what a Client has counted.
type ClientStats struct {
	Submitted    uint64 `json:"submitted"`
	Acknowledged uint64 `json:"acknowledged"`
	Resent       uint64 `json:"resent"`
	Connected    uint64 `json:"connected"` // times
	Lost         uint64 `json:"lost"`      // at level received: acknowledged, and not there after a crash
	LastError    error  `json:"-"`         // why the last connection ended or was not to be had
}

// slot is the place of one record until it is acknowledged.
type slot struct {
	seq   uint64
	acked bool // and one before it is not: what is sent again has no gap
	frame []byte
	done  func(seq uint64, err error)
}

// keptFrame is the largest frame whose buffer a slot keeps.
const keptFrame = 4 << 10

// ErrClosed is why records fail after Close.
var ErrClosed = errors.New("gateway: the client is closed")

// ErrTooLarge refuses a record over the server's limit.
var ErrTooLarge = errors.New("gateway: the record is too large")

// ErrUnknown is in the error of a record whose fate the client could not learn: it may be
// stored or not. Only a new client with the session's Epoch finds out.
var ErrUnknown = errors.New("gateway: the record may be stored or not")

func (c *Client) start() {
	c.once.Do(func() {
		if len(c.Addrs) == 0 {
			panic("gateway: Client.Addrs is empty")
		}
		if err := checkClientID(c.ID); err != nil {
			panic("gateway: Client.ID: " + err.Error())
		}
		c.ctx, c.cancel = context.WithCancel(context.Background())
		c.done = make(chan struct{})
		c.changed.L = &c.mu
		c.base = max(c.Next, 1)
		c.next = c.base
		if c.Logger == nil {
			c.Logger = slog.New(slog.DiscardHandler)
		}
		if c.Dial == nil {
			c.Dial = dial
		}
		go c.run()
	})
}

func dial(ctx context.Context, addr string) (net.Conn, error) {
	network := "tcp"
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		network, addr = "unix", path
	}
	return new(net.Dialer).DialContext(ctx, network, addr)
}

// Open waits for the first connection and returns the session.
func (c *Client) Open(ctx context.Context) (Session, error) {
	c.start()
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.wait(ctx, func() bool { return c.session.Epoch != 0 })
	return c.session, err
}

// Stats reports the counters. It may be called at any time.
func (c *Client) Stats() ClientStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

// wait waits until ready, mu held, and fails when ctx or the client ends first.
func (c *Client) wait(ctx context.Context, ready func() bool) error {
	if c.err == nil && !ready() {
		stop := context.AfterFunc(ctx, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.changed.Broadcast()
		})
		defer stop()
	}
	for {
		switch {
		case c.err != nil:
			return c.err
		case ready():
			return nil
		case ctx.Err() != nil:
			if c.stats.LastError != nil && c.conn == nil {
				return fmt.Errorf("gateway: %w; the last connection: %w", context.Cause(ctx), c.stats.LastError)
			}
			return fmt.Errorf("gateway: %w", context.Cause(ctx))
		}
		c.changed.Wait()
	}
}

// Submit stores data and returns its sequence number once it is acknowledged. When ctx
// ends first the record is submitted all the same, if it has a number.
func (c *Client) Submit(ctx context.Context, data []byte) (seq uint64, err error) {
	settled := make(chan error, 1)
	seq, err = c.SubmitAsync(ctx, data, func(_ uint64, err error) { settled <- err })
	if err != nil {
		return 0, err
	}
	select {
	case err = <-settled:
		return seq, err
	case <-ctx.Done():
		return seq, fmt.Errorf("%w: %w", ErrUnknown, context.Cause(ctx))
	}
}

// SubmitAsync gives data a sequence number and returns; done is called when it is
// acknowledged, or with an error when the client ends first. ctx bounds the wait for a
// place in the window. data is copied. done runs on the goroutine that reads the
// connection: it must not block, must not wait for the client, and may be nil.
func (c *Client) SubmitAsync(ctx context.Context, data []byte, done func(seq uint64, err error)) (seq uint64, err error) {
	c.start()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.wait(ctx, c.hasRoom); err != nil {
		return 0, err
	}
	switch {
	case c.closing:
		return 0, ErrClosed
	case len(data) > c.most:
		return 0, fmt.Errorf("%w: %d bytes of at most %d", ErrTooLarge, len(data), c.most)
	}
	seq = c.next
	c.next++
	c.stats.Submitted++
	s := c.slot(seq)
	s.seq, s.done, s.acked = seq, done, false
	s.frame = wire.Standard.Append(s.frame[:0], wire.Packet{Command: wire.Submit, ID: seq, Content: data})
	if c.conn != nil {
		c.conn.queue(s.frame)
	}
	return seq, nil
}

// hasRoom reports whether one more record may be given a number.
func (c *Client) hasRoom() bool {
	return c.closing || c.window > 0 && c.next-c.base < c.window && (c.conn == nil || len(c.conn.out) < mostOut)
}

// mostOut is how many bytes may wait to be written before calls wait.
const mostOut = 1 << 20

func (c *Client) slot(seq uint64) *slot { return &c.slots[seq%uint64(len(c.slots))] }

// Flush waits until all that was submitted is acknowledged.
func (c *Client) Flush(ctx context.Context) error {
	c.start()
	c.mu.Lock()
	defer c.mu.Unlock()
	until := c.next
	return c.wait(ctx, func() bool { return c.base >= until })
}

// Close waits until all that was submitted is acknowledged, or ctx ends, and ends the
// client. What is not acknowledged by then fails with ErrUnknown.
func (c *Client) Close(ctx context.Context) error {
	c.start()
	c.mu.Lock()
	c.closing = true
	err := c.wait(ctx, func() bool { return c.base == c.next })
	c.changed.Broadcast()
	c.mu.Unlock()
	c.end(ErrClosed)
	<-c.done
	if errors.Is(err, ErrClosed) { // closed before
		return nil
	}
	return err
}

// end makes the client fail from now on; the first reason stays.
func (c *Client) end(why error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = why
	var unsettled []slot
	for ; c.base < c.next; c.base++ {
		if s := c.slot(c.base); !s.acked {
			unsettled = append(unsettled, *s)
		}
	}
	if c.conn != nil {
		c.conn.nc.Close()
	}
	c.changed.Broadcast()
	c.mu.Unlock()
	c.cancel()
	for _, s := range unsettled {
		if s.done != nil {
			s.done(s.seq, fmt.Errorf("%w: %w", ErrUnknown, why))
		}
	}
}

// run connects, and connects anew, until the client ends.
func (c *Client) run() {
	defer close(c.done)
	pauses := pauser{shortest: 20 * time.Millisecond, longest: 2 * time.Second}
	var moved moves
	for at := 0; ; at++ {
		welcomed, err := c.serve(c.Addrs[at%len(c.Addrs)])
		c.mu.Lock()
		ended := c.err != nil
		c.stats.LastError = err
		c.mu.Unlock()
		if ended {
			return
		}
		c.Logger.Info("connection ended", "addr", c.Addrs[at%len(c.Addrs)], "err", err)
		if moved.now(err) {
			err = fmt.Errorf("%w, by another program: it was taken %d times within a minute", ErrFenced, mostMoves)
		}
		if isFinal(err) {
			c.end(err)
			return
		}
		if welcomed {
			pauses.reset()
			at-- // the same server first: it knows this client best
		}
		if (at+1)%len(c.Addrs) == 0 || welcomed {
			pauses.wait(c.ctx)
		}
	}
}

// moves are the times at which another connection has taken the session: one that this
// client has given up, or another program's. Those of another program do not end.
type moves []time.Time

const mostMoves = 10

// now notes why a connection has ended, and reports whether another program must be it.
func (m *moves) now(err error) bool {
	if !errors.Is(err, ErrMoved) {
		return false
	}
	*m = append(*m, time.Now())
	if len(*m) <= mostMoves {
		return false
	}
	*m = (*m)[1:]
	return time.Since((*m)[0]) < time.Minute
}

// isFinal reports whether connecting anew cannot help.
func isFinal(err error) bool {
	for _, final := range []error{ErrUnauthorised, ErrFenced, ErrExpired, ErrLevel, ErrRegressed, ErrGap, ErrHandshake, ErrTooMany} {
		if errors.Is(err, final) {
			return true
		}
	}
	return false
}

// serve has one connection from its opening to its end, and says whether the server
// welcomed it.
func (c *Client) serve(addr string) (welcomed bool, err error) {
	ctx, cancel := context.WithTimeout(c.ctx, cmp.Or(c.DialTime, 10*time.Second))
	nc, err := c.Dial(ctx, addr)
	if err != nil {
		cancel()
		return false, fmt.Errorf("gateway: %w", err)
	}
	conn := &clientConn{client: c, nc: nc}
	conn.wake.L = &c.mu
	defer nc.Close()
	w, err := conn.handshake(ctx)
	cancel()
	if err == nil {
		err = c.adopt(conn, w)
	}
	if err != nil {
		return false, err
	}
	return true, conn.serve()
}

// adopt makes conn the connection that records go to, and gives it what is not
// acknowledged again.
func (c *Client) adopt(conn *clientConn, w welcome) error {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return c.err
	}
	if c.session.Epoch == 0 { // the first
		c.base = max(c.base, w.last+1)
		c.next = c.base
	}
	c.session = Session{Epoch: w.epoch, Level: w.level, Last: w.last, Expiry: w.expiry}
	if c.most = int(w.most); c.slots == nil {
		c.window = min(uint64(cmp.Or(c.Window, 1024)), uint64(w.window))
		c.slots = make([]slot, c.window)
	}
	c.window = min(c.window, uint64(w.window))
	c.stats.Connected++
	if w.last+1 < c.base {
		c.stats.Lost += c.base - w.last - 1
	}
	var settled []slot
	for seq := c.base; seq <= w.last && seq < c.next; seq++ {
		settled = c.settle(seq, settled)
	}
	for seq := c.base; seq < c.next; seq++ {
		conn.out = append(conn.out, c.slot(seq).frame...)
		c.stats.Resent++
	}
	c.idle = cmp.Or(c.Heartbeat, min(20*time.Second, max(w.idle/3, time.Second)))
	c.conn = conn
	c.changed.Broadcast()
	c.mu.Unlock()
	call(settled, nil)
	return nil
}

// settle takes an acknowledged record off its slot, mu held; its done is to be called.
func (c *Client) settle(seq uint64, settled []slot) []slot {
	s := c.slot(seq)
	if seq < c.base || seq >= c.next || s.acked {
		return settled // acknowledged before
	}
	c.stats.Acknowledged++
	if s.done != nil {
		settled = append(settled, slot{seq: seq, done: s.done})
	}
	s.done, s.acked = nil, true
	for ; c.base < c.next && c.slot(c.base).acked; c.base++ {
		if s := c.slot(c.base); cap(s.frame) > keptFrame {
			s.frame = nil
		}
	}
	return settled
}

func call(settled []slot, err error) {
	for _, s := range settled {
		s.done(s.seq, err)
	}
}
