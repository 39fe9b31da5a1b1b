package framed

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/hone-go/hone/wire"
)

// ErrNotSent is in the error of a call that was certainly not executed, so to make
// it again is safe: its request never left whole, or the server drained and has
// promised that it executed nothing that it did not answer (docs/protocol.md). A
// call that failed without it may have been executed.
var ErrNotSent = errors.New("framed: the request was not executed")

// ClientOptions is how a Client speaks and what it accepts. The zero value
// works.
type ClientOptions struct {
	// Dialect is what is spoken on the wire; it must be the server's. Zero:
	// wire.Standard.
	Dialect wire.Dialect
	// FrameSize is the largest frame accepted from the server. Zero: 16 MiB.
	// Memory grows with the bytes received, never with the length claimed.
	FrameSize int
	// Window is how many requests of one connection may be unanswered; further
	// calls wait their turn. One whose caller gave up counts until its late
	// answer comes, for the server works on it. Zero: 1024, which is what a
	// server serves at once of one connection (engine.Limits.InFlight).
	Window int
	// OnDeliver is called with every push, in the order of their arrival. It
	// runs on the goroutine that reads: replies wait until it returns, and
	// content is valid until then. It must not wait for the client: a Call in
	// it waits for a reply that nobody reads, and Close never returns. A panic
	// in it is not recovered. Zero: pushes are dropped.
	OnDeliver func(id uint64, content []byte)
}

// Client is one connection that any number of goroutines share. Dial or
// NewClient makes one, Close ends it. Requests of different callers are written
// together, and replies find their caller by id, in whatever order they come.
//
// When the connection ends, every pending and later call fails with an error
// that is ErrClosed and wraps the reason (see Err). A Client does not dial
// again: a program that outlives its connections wants a Mux.
//
// Cost: no allocations for a call whose reply fits its dst (BenchmarkClient).
type Client struct {
	nc        net.Conn
	dialect   wire.Dialect
	frameSize int
	window    int
	onDeliver func(id uint64, content []byte)

	done       chan struct{}  // closed when the connection has ended
	goroutines sync.WaitGroup // reader and writer
	used       sync.Pool      // of *pendingCall that nobody refers to any more
	load       atomic.Int64   // len(pending) + queue.length, for who chooses among clients

	mu       sync.Mutex
	gathered sync.Cond // out is no longer empty, or the connection has ended
	out      []byte    // frames that wait for the writer
	writing  int       // bytes in the writer's hands
	queue    callQueue // calls that wait for room
	issued   uint64    // ids 1 to issued have been used
	taken    uint64    // of these, ids 1 to taken may have been executed
	answers  uint64    // requests answered
	late     uint64    // of these, when their caller had given up
	pending  map[uint64]*pendingCall
	writeErr error // why the writer gave up
	err      error // why the connection ended; nil while it lives
	unsent   error // ErrNotSent and err
}

const (
	defaultFrameSize = 16 << 20
	defaultWindow    = 1024

	// mostContent fits a frame's 32-bit length, whatever its head.
	mostContent = math.MaxUint32 - 64
)

// Dial connects to addr, host:port or unix:PATH as in Server.Addr, and makes a
// Client of the connection. ctx bounds the dialling only.
func Dial(ctx context.Context, addr string, o ClientOptions) (*Client, error) {
	nc, err := dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	return NewClient(nc, o), nil
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

// NewClient makes a Client of a connection that is open already, TLS for
// example, and owns it from then on. It starts two goroutines, which end with
// the connection.
func NewClient(nc net.Conn, o ClientOptions) *Client {
	c := &Client{
		nc:        nc,
		dialect:   o.Dialect,
		frameSize: o.FrameSize,
		window:    o.Window,
		onDeliver: o.OnDeliver,
		done:      make(chan struct{}),
		pending:   map[uint64]*pendingCall{},
	}
	if c.frameSize <= 0 {
		c.frameSize = defaultFrameSize
	}
	if c.window <= 0 {
		c.window = defaultWindow
	}
	c.gathered.L = &c.mu
	c.used.New = func() any { return &pendingCall{settled: make(chan struct{}, 1)} }
	c.goroutines.Go(c.read)
	c.goroutines.Go(c.write)
	return c
}

// Call sends content as a request, waits for the reply and returns dst with the
// reply's content appended. It touches neither dst nor content after it has
// returned. The error is
//
//   - a wire.Result when the server answered with one that is not OK; what the
//     server said beside it (see Refusal) is appended all the same;
//   - ctx's cause when ctx ended first: the server may still execute the
//     request, and its late reply is dropped;
//   - ErrClosed, wrapping the reason, when the connection ended first: the
//     request may or may not have been executed.
//
// In the last two cases it returns dst as it was, and the error is ErrNotSent
// too where the request was certainly not executed. While Window requests are unanswered, or
// 256 KiB wait to be written, calls wait before they send, first come first
// served. A request over the server's limit (engine.Limits.FrameSize, 64 KiB by
// default) ends the connection, for all who share it.
func (c *Client) Call(ctx context.Context, dst, content []byte) ([]byte, error) {
	return c.do(ctx, wire.Submit, wire.SubmitAck, dst, content)
}

// Connect sends a Conn packet with credentials or options; everything else is
// as with Call: what the server says beside its answer is appended to dst, also
// when it refuses. A Conn is also the heartbeat: a server closes a connection on
// which it hears nothing for long (engine.Limits.IdleTime, 3 minutes by
// default), so send one well within that time where calls may be rarer.
func (c *Client) Connect(ctx context.Context, dst, credentials []byte) ([]byte, error) {
	return c.do(ctx, wire.Conn, wire.ConnAck, dst, credentials)
}

// Close ends the connection at once: what waits to be written is dropped and
// pending calls fail with ErrClosed. It returns when the client's goroutines
// have ended, and so after a running OnDeliver. Its error is always nil.
func (c *Client) Close() error {
	c.end(ErrClosed)
	c.goroutines.Wait()
	return nil
}

// Done is closed when the connection has ended, for whatever reason.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err says why the connection ended, and is nil while it lives. After Close it
// is ErrClosed; otherwise it is ErrClosed and wraps
//
//   - the wire.Result with which the server refused the whole connection, such
//     as wire.Overloaded or wire.ShuttingDown;
//   - engine.TooLarge, engine.Malformed or engine.UnknownCommand when the
//     server sent something other than an answer, as one that speaks another dialect does;
//   - ErrStalled when a Mux gave the connection up;
//   - or the error of the connection: io.EOF when the server closed it without
//     a word, io.ErrUnexpectedEOF when it did so within a frame.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// do sends one request and waits for its answer.
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

// notSent is why a request was certainly not executed.
func notSent(why error) error { return fmt.Errorf("%w: %w", ErrNotSent, why) }
