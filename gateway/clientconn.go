package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/hone-go/hone/wire"
)

// clientConn is one connection of a Client.
type clientConn struct {
	client *Client
	nc     net.Conn

	// Client.mu guards the rest.
	out   []byte // frames queued for the writer
	wake  sync.Cond
	ended bool
	quiet bool // nothing was sent since the timer last fired
	beat  *time.Timer
}

// helloID is the id of Conn packets. A record may have the same one: the command of the
// answer tells them apart.
const helloID = 1

// maxAnswer is the size limit of a frame from the server.
const maxAnswer = 64 << 10

// handshake says hello and reads the welcome.
func (c *clientConn) handshake(ctx context.Context, version uint8) (w welcome, err error) {
	h := c.client.hello(version)
	answer, err := shake(ctx, c.nc, h.append(nil))
	if err != nil {
		return w, err
	}
	if w, err = parseWelcome(answer); err == nil && h.epoch != 0 && w.epoch != h.epoch {
		err = fmt.Errorf("%w: the client asked for epoch %d, the server granted %d", ErrHandshake, h.epoch, w.epoch)
	}
	return w, err
}

// shake sends a connection's first message, and returns the content of the answer.
func shake(ctx context.Context, nc net.Conn, content []byte) (answer []byte, err error) {
	stop := context.AfterFunc(ctx, func() { nc.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := nc.Write(wire.Standard.Append(nil, wire.Packet{Command: wire.Conn, ID: helloID, Content: content})); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	p, err := readOne(nc)
	switch {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%w before the server answered; does it expect TLS?", err)
	case err != nil:
		return nil, err
	case p.Command != wire.ConnAck || p.ID != helloID && p.Result == wire.OK:
		return nil, fmt.Errorf("%w: the server answered with %v", ErrHandshake, p.Command)
	case p.Result != wire.OK:
		return nil, refused(p.Result, p.Content)
	case !stop():
		return nil, context.Cause(ctx)
	}
	return p.Content, nil
}

// hello returns the hello for the next connection.
func (c *Client) hello(version uint8) hello {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := hello{version: version, level: c.Level, epoch: c.session.Epoch, next: c.base, client: c.ID, token: c.Token}
	if version > 1 {
		h.instance, h.welcomed = c.instance, h.epoch != 0
	}
	if h.epoch == 0 {
		h.epoch = c.Epoch
	}
	if h.epoch == 0 {
		h.next = 1
	}
	return h
}

// readOne reads one frame, and no byte after it.
func readOne(nc net.Conn) (p wire.Packet, err error) {
	var in []byte
	for {
		payload, need, err := wire.Frame(in, maxAnswer)
		switch {
		case err != nil:
			return p, fmt.Errorf("%w: %w", ErrHandshake, err)
		case need == 0:
			return wire.Standard.Parse(payload)
		}
		in = append(in, make([]byte, need)...)
		if _, err := io.ReadFull(nc, in[len(in)-need:]); err != nil {
			return p, fmt.Errorf("gateway: %w", err)
		}
	}
}

// serve writes and reads until the connection ends, and returns the reason.
func (c *clientConn) serve() error {
	var writer sync.WaitGroup
	writer.Go(c.write)
	c.client.mu.Lock()
	c.beat = time.AfterFunc(c.client.idle, c.heartbeat)
	c.client.mu.Unlock()
	err := c.read()
	c.client.mu.Lock()
	c.ended = true
	c.beat.Stop()
	c.client.conn = nil
	c.wake.Signal()
	c.client.changed.Broadcast()
	c.client.mu.Unlock()
	c.nc.Close()
	writer.Wait()
	return err
}

// queue hands a frame to the writer; mu is held.
func (c *clientConn) queue(frame []byte) {
	c.out = append(c.out, frame...)
	c.quiet = false
	c.wake.Signal()
}

// heartbeat sends an empty Conn if the connection was idle for an interval, and rearms the
// timer.
func (c *clientConn) heartbeat() {
	c.client.mu.Lock()
	defer c.client.mu.Unlock()
	if c.ended {
		return
	}
	if c.quiet {
		c.queue(wire.Standard.Append(nil, wire.Packet{Command: wire.Conn, ID: helloID}))
	}
	c.quiet = true
	c.beat.Reset(c.client.idle)
}

// write is the writer goroutine. It sends all queued frames with one write.
func (c *clientConn) write() {
	var frames []byte
	mu := &c.client.mu
	for {
		mu.Lock()
		for len(c.out) == 0 && !c.ended {
			c.wake.Wait()
			mu.Unlock()
			runtime.Gosched() // let more records queue up, for one write
			mu.Lock()
		}
		if c.ended {
			mu.Unlock()
			return
		}
		full := len(c.out) >= maxOut
		frames, c.out = c.out, frames[:0]
		if full {
			c.client.changed.Broadcast()
		}
		mu.Unlock()
		if _, err := c.nc.Write(frames); err != nil {
			c.nc.SetReadDeadline(time.Now().Add(time.Second)) // the server may still send its reason
			return
		}
		if cap(frames) > 2*maxOut {
			frames = nil
		}
	}
}

// read is the reader: it settles acknowledged records.
func (c *clientConn) read() error {
	buffer, unread := make([]byte, 64<<10), 0
	var settled []slot
	for {
		patience := c.client.idle*2 + stallTime(c.client.StallTime)
		c.nc.SetReadDeadline(time.Now().Add(patience))
		n, readErr := c.nc.Read(buffer[unread:])
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

func stallTime(d time.Duration) time.Duration {
	if d == 0 {
		return 40 * time.Second
	}
	return d
}

// receive handles the complete frames at the front of in. A gateway sends small frames only:
// one that does not fit into the buffer is an error.
func (c *clientConn) receive(in []byte, settled []slot) (used int, _ []slot, err error) {
	c.client.mu.Lock()
	defer c.client.mu.Unlock()
	before := c.client.base
	defer func() {
		if c.client.base != before {
			c.client.changed.Broadcast()
		}
	}()
	for {
		payload, need, err := wire.Frame(in[used:], maxAnswer)
		if err != nil || need > 0 {
			return used, settled, err
		}
		p, err := wire.Standard.Parse(payload)
		if err != nil {
			return used, settled, err
		}
		used += wire.HeaderSize + len(payload)
		switch {
		case p.Command == wire.Deliver:
		case p.Result != wire.OK:
			return used, settled, refused(p.Result, p.Content)
		case p.Command == wire.SubmitAck:
			settled = c.client.settle(p.ID, settled)
		}
	}
}

// backoff is exponential backoff with jitter, so that clients do not reconnect all at once.
type backoff struct{ shortest, longest, now time.Duration }

func (p *backoff) reset() { p.now = 0 }

func (p *backoff) wait(ctx context.Context) {
	p.now = min(max(2*p.now, p.shortest), p.longest)
	timer := time.NewTimer(p.now/2 + rand.N(p.now/2))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
