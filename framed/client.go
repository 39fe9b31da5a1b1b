package framed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hone-go/hone/internal/fifo"
	"github.com/hone-go/hone/wire"
)

// ErrNotSent is wrapped by the error of a call that was certainly not executed, so a
// retry is safe: either its request was not sent in full, or the server drained and
// guarantees that it executed nothing that it did not answer (docs/protocol.md). A call
// that failed without ErrNotSent may have been executed.
var ErrNotSent = errors.New("framed: the request was not executed")

// ClientOptions configures a Client. The zero value works.
type ClientOptions struct {
	// FrameSize is the largest frame accepted from the server. Zero: 16 MiB. Negative: a
	// panic. Memory grows with the bytes received, never with the length claimed.
	FrameSize int
	// Window is the maximum number of requests in flight on the connection; further calls
	// wait. A request whose caller gave up stays in flight until its late reply arrives,
	// because the server still works on it. Zero: 1024, which is what a server allows per
	// connection (engine.Limits.InFlight). Negative: a panic.
	Window int
	// OnDeliver is called with every push, in order of arrival. It runs on the goroutine
	// that reads: replies wait until it returns, and content is valid until then. It must
	// not block on the client: a Call in it waits for a reply that nobody reads, and
	// Close never returns. A panic in it is not recovered. Zero: pushes are dropped.
	OnDeliver func(id uint64, content []byte)
}

// Client is one connection shared by any number of goroutines. Dial or NewClient makes
// one, Close ends it. Requests of concurrent callers are written in batches, and replies
// are matched to callers by id, in any order.
//
// When the connection ends, every pending and later call fails with an error that wraps
// ErrClosed and the reason (see Err). A Client does not reconnect; use a Mux for that.
//
// Cost: no allocations for a call whose reply fits its dst (BenchmarkClient).
type Client struct {
	nc        net.Conn
	frameSize int
	window    int
	onDeliver func(id uint64, content []byte)

	done       chan struct{}  // closed when the connection has ended
	goroutines sync.WaitGroup // reader and writer
	used       sync.Pool      // free list of *pendingCall
	load       atomic.Int64   // len(pending) + queue.Len(), for balancing between clients

	mu       sync.Mutex
	gathered sync.Cond                // signals that out is no longer empty, or that the connection has ended
	out      []byte                   // frames queued for the writer
	writing  int                      // bytes that the writer is writing
	queue    fifo.Queue[*pendingCall] // calls that wait for the window or the backlog
	issued   uint64                   // ids 1 to issued are used
	taken    uint64                   // of these, ids 1 to taken may have been executed
	answers  uint64                   // requests answered
	late     uint64                   // of these, after the caller had given up
	pending  map[uint64]*pendingCall
	writeErr error // why the writer failed
	err      error // why the connection ended; nil while it is open
	unsent   error // ErrNotSent and err

	back time.Duration // after which to connect again, as the server has said
}

const (
	defaultFrameSize = 16 << 20
	defaultWindow    = 1024

	// mostContent leaves room for any frame's head within the 32-bit length.
	mostContent = math.MaxUint32 - 64
)

// Dial connects to addr, which is host:port or unix:PATH as in Server.Addr, and returns a
// Client. ctx bounds dialling only.
func Dial(ctx context.Context, addr string, o ClientOptions) (*Client, error) {
	o.check()
	nc, err := dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	return NewClient(nc, o), nil
}

// check panics if a size is negative.
func (o *ClientOptions) check() {
	switch {
	case o.FrameSize < 0:
		panic("framed: ClientOptions.FrameSize is negative; set the largest frame to accept, or 0 for the default")
	case o.Window < 0:
		panic("framed: ClientOptions.Window is negative; set how many requests may be in flight, or 0 for the default")
	}
}

func dial(ctx context.Context, addr string) (net.Conn, error) {
	network := "tcp"
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		network, addr = "unix", path
	}
	var d net.Dialer
	nc, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, fmt.Errorf("framed: %w", err)
	}
	return nc, nil
}

// NewClient returns a Client on an open connection, such as a TLS one, and takes
// ownership of it. It starts two goroutines, which end with the connection.
func NewClient(nc net.Conn, o ClientOptions) *Client {
	o.check()
	c := &Client{
		nc:        nc,
		frameSize: cmp.Or(o.FrameSize, defaultFrameSize),
		window:    cmp.Or(o.Window, defaultWindow),
		onDeliver: o.OnDeliver,
		done:      make(chan struct{}),
		pending:   map[uint64]*pendingCall{},
	}
	c.gathered.L = &c.mu
	c.used.New = func() any { return &pendingCall{settled: make(chan struct{}, 1)} }
	c.goroutines.Go(c.read)
	c.goroutines.Go(c.write)
	return c
}

// Call sends content as a request, waits for the reply, appends its content to dst and
// returns the result. It uses neither dst nor content after it has returned. The error is
//
//   - a wire.Result when the server answered with one other than OK; the reply's
//     content (see Refusal) is appended all the same;
//   - ctx's cause when ctx ended first: the server may still execute the
//     request, and its late reply is dropped;
//   - ErrClosed, wrapping the reason, when the connection ended first: the
//     request may or may not have been executed.
//
// In the last two cases it returns dst unchanged, and the error also wraps ErrNotSent
// where the request was certainly not executed. When Window requests are in flight, or
// 256 KiB are queued for writing, calls wait in FIFO order before they send. A request
// over the server's limit (engine.Limits.FrameSize, 64 KiB by default) ends the
// connection for all callers.
func (c *Client) Call(ctx context.Context, dst, content []byte) ([]byte, error) {
	return c.do(ctx, wire.Submit, wire.SubmitAck, dst, content)
}

// Connect sends a Conn packet with credentials or options and otherwise works like Call:
// the content of the server's reply is appended to dst, also when the server refuses. A
// Conn is also the heartbeat: a server closes a connection after an idle timeout
// (engine.Limits.IdleTime, 3 minutes by default), so send one well within that time when
// calls may be rarer.
func (c *Client) Connect(ctx context.Context, dst, credentials []byte) ([]byte, error) {
	return c.do(ctx, wire.Conn, wire.ConnAck, dst, credentials)
}

// Close ends the connection at once: queued requests are dropped and pending calls fail
// with ErrClosed. It returns when the client's goroutines have ended, which includes a
// running OnDeliver. Its error is always nil.
func (c *Client) Close() error {
	c.end(ErrClosed)
	c.goroutines.Wait()
	return nil
}

// Done returns a channel that is closed when the connection has ended, for whatever
// reason.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err returns why the connection ended, and nil while it is open. After Close it is
// ErrClosed; otherwise it wraps ErrClosed and
//
//   - the wire.Result with which the server refused the whole connection, such
//     as wire.Overloaded or wire.ShuttingDown;
//   - engine.TooLarge, engine.Malformed or engine.UnknownCommand when the
//     server sent something other than a reply;
//   - ErrStalled when a Mux closed a stalled connection;
//   - or the error of the connection: io.EOF when the server closed it without
//     a reason, io.ErrUnexpectedEOF when it did so within a frame.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// do sends one request and waits for its reply.
func (c *Client) do(ctx context.Context, request, answer wire.Command, dst, content []byte) ([]byte, error) {
	checkSize(content)
	if ctx.Err() != nil {
		return dst, notSent(context.Cause(ctx))
	}
	call := c.used.Get().(*pendingCall)
	call.request, call.answer, call.content, call.reply = request, answer, content, dst
	if err := c.send(call); err != nil {
		c.reuse(call)
		return dst, err
	}
	select {
	case <-call.settled:
	case <-ctx.Done():
		if mine, sent := c.abandon(call); mine {
			c.reuse(call)
			if sent {
				return dst, context.Cause(ctx)
			}
			return dst, notSent(context.Cause(ctx))
		}
		<-call.settled
	}
	reply, err := call.reply, call.err
	if err == nil && call.result != wire.OK {
		err = call.result
	}
	c.reuse(call)
	return reply, err
}

func checkSize(content []byte) {
	if uint64(len(content)) > mostContent {
		panic("framed: a request does not fit its 32-bit length")
	}
}

// notSent wraps the reason why a request was certainly not executed.
func notSent(why error) error { return fmt.Errorf("%w: %w", ErrNotSent, why) }
