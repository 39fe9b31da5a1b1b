package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/hone-go/hone/wire"
)

// Client submits records over one connection at a time. When the connection is lost, it
// reconnects and resends the records that were not acknowledged; each record is stored
// once, in order. Fill the fields, call Submit or SubmitAsync, and do not change the fields
// afterwards. The zero value of every field except Addrs and ID is a working default. Call
// Close at the end.
//
//	c := &gateway.Client{Addrs: []string{"127.0.0.1:7100"}, ID: "meter-17"}
//	seq, err := c.Submit(ctx, []byte("21.5 °C"))
//
// SubmitAsync does not allocate when all calls share one done (BenchmarkClient).
type Client struct {
	// Addrs are the gateway's servers, host:port or unix:PATH. The client tries them in
	// this order until one answers, and continues from that one when it fails. Required.
	Addrs []string
	// Dial opens a connection to one of Addrs. Zero: without TLS. With it, return
	// (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", addr).
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// ID is the client's name: 1 to 64 printable ASCII characters without spaces. A client
	// has one connection; a second one with this name closes the first. Required.
	ID string
	// Token authenticates the client at servers that require tokens.
	Token string
	// Level is the durability that an acknowledgement promises. Zero: the highest that the
	// server offers.
	Level Level
	// Epoch is the session to resume after a restart of the program: Session.Epoch of the
	// run before. Zero: a new session, which ends older ones of this name.
	Epoch uint64
	// Next is the lowest sequence number of that session that was not acknowledged. The
	// next record gets the number after the newest stored one. Zero: 1.
	Next uint64
	// Sum is the checksum of that session's records below Next, see Acknowledged. Nil: unknown.
	Sum *uint32
	// Unacknowledged are that session's records from Next on, which the run before had submitted.
	// The client resends those that are not stored, and ends with ErrDiverged if others are
	// stored in their place. Without them it takes what is stored from Next on as it is.
	Unacknowledged [][]byte
	// Window is how many records may be in flight; further calls wait. Zero: 1024, or the
	// server's limit if that is lower. Negative: a panic.
	Window int
	// DialTime is the timeout for dialing and the handshake together. Zero: 10 s.
	DialTime time.Duration
	// StallTime is the read timeout beyond two heartbeat intervals: after it the client
	// reconnects. It must exceed the server's AppendTime. Zero: 40 s.
	StallTime time.Duration
	// Heartbeat is how long the connection may be idle before the client sends a
	// heartbeat. Zero: a third of the server's idle timeout, 20 s at most.
	Heartbeat time.Duration
	// Logger receives lost connections. Zero: no logging.
	Logger *slog.Logger

	dialer // its mu guards the rest

	session Session
	most    int    // maximum bytes of one record
	window  uint64 // maximum records in flight
	slots   []slot // records in flight, by sequence number modulo len(slots)
	base    uint64 // lowest unacknowledged sequence number
	next    uint64 // sequence number of the next record
	sums    sums
	sum     uint32 // checksum of the records below base
	summed  bool   // sum is known
	closing bool
	stats   ClientStats
}

// Session describes the session that the server granted.
type Session struct {
	Epoch  uint64        `json:"epoch"`
	Level  Level         `json:"level"`
	Last   uint64        `json:"last"`   // newest record stored when the connection began
	Expiry time.Duration `json:"expiry"` // how long the server keeps a session without a connection
}

// ClientStats are the counters of a Client.
type ClientStats struct {
	Submitted    uint64 `json:"submitted"`
	Acknowledged uint64 `json:"acknowledged"`
	Resent       uint64 `json:"resent"`
	Connected    uint64 `json:"connected"` // connections opened
	Lost         uint64 `json:"lost"`      // at level received: acknowledged, but lost in a crash
	LastError    error  `json:"-"`         // why the last connection ended or failed
}

// slot holds one record until it is acknowledged.
type slot struct {
	seq   uint64
	acked bool // kept while an earlier record is unacknowledged: resends must have no gap
	frame []byte
	done  func(seq uint64, err error)
}

// keptFrame is the largest frame buffer that a slot reuses.
const keptFrame = 4 << 10

// ErrClosed is the error of a call after Close.
var ErrClosed = errors.New("gateway: the client is closed")

// ErrTooLarge is the error of a record that exceeds the server's limit.
var ErrTooLarge = errors.New("gateway: the record is too large")

// ErrUnknown is wrapped by the error of a record whose outcome is unknown: it may be stored
// or not. To find out, resume the session with a new Client that has its Epoch.
var ErrUnknown = errors.New("gateway: the record may be stored or not")

func (c *Client) start() {
	c.once.Do(func() {
		c.addrs, c.dial, c.logger = c.Addrs, c.Dial, c.Logger
		c.dialTime, c.stallTime, c.heartbeat = c.DialTime, c.StallTime, c.Heartbeat
		c.prepare("Client", "ID", c.ID, c.Window)
		c.base = max(c.Next, 1)
		c.next = c.base
		var moved moves
		go c.run(c.serve, moved.judge, c.end)
	})
}

// Open waits for the first connection and returns the session.
func (c *Client) Open(ctx context.Context) (Session, error) {
	c.start()
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.wait(ctx, func() bool { return c.session.Epoch != 0 })
	return c.session, err
}

// Acknowledged returns what to keep for another run of the program: the values for Client.Next and
// Client.Sum, to go with Session.Epoch. The records from next on are Client.Unacknowledged.
func (c *Client) Acknowledged() (next uint64, sum *uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.summed {
		sum = new(c.sum)
	}
	return c.base, sum
}

// Stats reports the counters. It may be called at any time.
func (c *Client) Stats() ClientStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := c.stats
	st.LastError = c.lost
	return st
}

// Submit stores data and returns its sequence number after the acknowledgement. When ctx
// ends first, a record that already has a number is still submitted.
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

// SubmitAsync queues data, which it copies, and returns its sequence number. It calls done
// when the record is acknowledged, or with an error when the client ends first. ctx limits
// the wait for room in the window. done runs on the goroutine that reads the connection: it
// must not block or wait for the client. It may be nil.
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
		return 0, fmt.Errorf("%w: %d bytes, limit %d", ErrTooLarge, len(data), c.most)
	}
	seq = c.next
	c.next++
	c.stats.Submitted++
	s := c.slot(seq)
	s.seq, s.done, s.acked = seq, done, false
	s.frame = wire.Append(s.frame[:0], wire.Packet{Command: wire.Submit, ID: seq, Content: data})
	if c.conn != nil {
		c.conn.queue(s.frame)
	}
	return seq, nil
}

// hasRoom reports whether the window and the output buffer have room for a record.
func (c *Client) hasRoom() bool {
	return c.closing || c.window > 0 && c.next-c.base < c.window && (c.conn == nil || len(c.conn.out) < maxOut)
}

func (c *Client) slot(seq uint64) *slot { return &c.slots[seq%uint64(len(c.slots))] }

// Flush waits until all submitted records are acknowledged.
func (c *Client) Flush(ctx context.Context) error {
	c.start()
	c.mu.Lock()
	defer c.mu.Unlock()
	until := c.next
	return c.wait(ctx, func() bool { return c.base >= until })
}

// Close waits until all submitted records are acknowledged or ctx ends, and then ends the
// client. Records that are still unacknowledged fail with ErrUnknown.
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

// end makes all further calls fail with why; the first error is kept.
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

// moves are the times at which another connection took the session from one that had it. It may be an
// abandoned connection of this client, or one of another program that uses the same name. Only
// another program keeps taking it.
type moves []time.Time

const maxMoves = 10

// judge notes why a connection ended, and says why it was the last one.
func (m *moves) judge(welcomed bool, err error) (wait time.Duration, final error) {
	if isFinal(err) {
		return 0, err
	}
	if welcomed && errors.Is(err, ErrMoved) {
		*m = append(*m, time.Now())
	}
	if len(*m) <= maxMoves {
		return 0, nil
	}
	*m = (*m)[1:]
	if time.Since((*m)[0]) < time.Minute {
		return 0, fmt.Errorf("%w: another program uses this name; it took the session %d times within a minute", ErrFenced, maxMoves)
	}
	return 0, nil
}

// serve runs one connection from dial to close, and reports whether the server welcomed it.
func (c *Client) serve(addr string) (welcomed bool, err error) {
	ctx, cancel := context.WithTimeout(c.ctx, c.dialTime)
	conn, w, err := c.open(ctx, addr)
	cancel()
	if err != nil {
		return false, err
	}
	defer conn.nc.Close()
	if err := c.adopt(conn, w); err != nil {
		return false, err
	}
	return true, c.converse(conn, c.read)
}

func (c *Client) open(ctx context.Context, addr string) (*outlet, welcome, error) {
	var h hello
	conn, answer, err := c.connect(ctx, addr, func() []byte {
		h = c.hello()
		return h.append(nil)
	})
	if err != nil {
		return nil, welcome{}, err
	}
	w, err := parseWelcome(answer)
	if err == nil && h.epoch != 0 && w.epoch != h.epoch {
		err = fmt.Errorf("%w: the client asked for epoch %d, the server granted %d", ErrHandshake, h.epoch, w.epoch)
	}
	if err != nil {
		conn.nc.Close()
	}
	return conn, w, err
}

// hello returns the hello for the next connection.
func (c *Client) hello() hello {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := hello{level: c.Level, epoch: c.session.Epoch, next: c.base, client: c.ID, token: c.Token, instance: c.instance}
	h.welcomed = h.epoch != 0
	if h.epoch == 0 {
		h.epoch = c.Epoch
	}
	if h.epoch == 0 {
		h.next = 1
	}
	return h
}

// adopt makes conn the current connection, and queues all unacknowledged records on it.
func (c *Client) adopt(conn *outlet, w welcome) error {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return c.err
	}
	if c.session.Epoch == 0 {
		c.begin(w)
	}
	if err := c.compare(w); err != nil {
		c.mu.Unlock()
		return err
	}
	c.session = Session{Epoch: w.epoch, Level: w.level, Last: w.last, Expiry: w.expiry}
	c.most = int(w.most)
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
	c.attach(conn, w.idle)
	c.mu.Unlock()
	call(settled, nil)
	return nil
}

// begin takes over the state of the run before, with the first welcome; mu is held.
func (c *Client) begin(w welcome) {
	c.window = min(uint64(cmp.Or(c.Window, 1024)), uint64(w.window))
	c.slots = make([]slot, max(c.window, uint64(len(c.Unacknowledged))))
	switch {
	case c.Epoch == 0 || c.base == 1:
		c.summed = true
	case c.Sum != nil:
		c.summed, c.sum = true, *c.Sum
	}
	if len(c.Unacknowledged) == 0 && w.last >= c.base {
		c.base = w.last + 1
		c.summed, c.sum = w.summed, w.sum
	}
	c.next = c.base
	for _, data := range c.Unacknowledged {
		c.stats.Submitted++
		*c.slot(c.next) = slot{seq: c.next, frame: wire.Append(nil, wire.Packet{Command: wire.Submit, ID: c.next, Content: data})}
		c.next++
	}
	c.Unacknowledged = nil
}

// compare returns an error if what the server has stored is not what this client has sent; mu is held.
func (c *Client) compare(w welcome) error {
	if w.last >= c.next {
		return fmt.Errorf("%w: it ends at record %d, and the client's next one is %d", ErrDiverged, w.last, c.next)
	}
	if w.last+1 < c.base { // at level received, records were lost
		c.summed = false
	}
	if !c.summed || !w.summed {
		return nil
	}
	sum := c.sum
	for seq := c.base; seq <= w.last; seq++ {
		sum = c.sums.add(sum, seq, c.slot(seq).frame[submitHead:])
	}
	if sum != w.sum {
		return fmt.Errorf("%w: the checksums up to record %d are %08x there and %08x here", ErrDiverged, w.last, w.sum, sum)
	}
	return nil
}

// settle marks a record as acknowledged and appends its done, which the caller calls; mu is held.
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
		s := c.slot(c.base)
		if c.summed {
			c.sum = c.sums.add(c.sum, c.base, s.frame[submitHead:])
		}
		if cap(s.frame) > keptFrame {
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

// read is the reader: it settles acknowledged records.
func (c *Client) read(conn *outlet, patience time.Duration) error {
	buffer, unread := make([]byte, 64<<10), 0
	var settled []slot
	for {
		conn.nc.SetReadDeadline(time.Now().Add(patience))
		n, readErr := conn.nc.Read(buffer[unread:])
		used, err := 0, error(nil)
		used, settled, err = c.receive(buffer[:unread+n], settled[:0])
		call(settled, nil)
		if err != nil {
			return err
		}
		if readErr != nil {
			return fmt.Errorf("gateway: %w", readErr)
		}
		unread = copy(buffer, buffer[used:unread+n])
	}
}

// receive handles the complete frames at the front of in. A gateway sends small frames only:
// one that does not fit into the buffer is an error.
func (c *Client) receive(in []byte, settled []slot) (used int, _ []slot, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.base
	defer func() {
		if c.base != before {
			c.changed.Broadcast()
		}
	}()
	for {
		payload, need, err := wire.Frame(in[used:], maxAnswer)
		if err != nil || need > 0 {
			return used, settled, err
		}
		p, err := wire.Parse(payload)
		if err != nil {
			return used, settled, err
		}
		used += wire.HeaderSize + len(payload)
		switch {
		case p.Command == wire.Deliver:
		case p.Result != wire.OK:
			return used, settled, refused(p.Result, p.Content)
		case p.Command == wire.SubmitAck:
			settled = c.settle(p.ID, settled)
		}
	}
}
