package framed

import (
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/wire"
)

// ClientOptions is how a Client speaks and what it accepts. The zero value
// works.
type ClientOptions struct {
	// Dialect is what is spoken on the wire; it must be the server's. Zero:
	// wire.Standard.
	Dialect wire.Dialect
	// FrameSize is the largest frame accepted from the server. Zero: 16 MiB.
	// Memory grows with the bytes received, never with the length claimed.
	FrameSize int
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
// again; make a new one.
//
// Cost: no allocations for a call whose reply fits its dst (BenchmarkClient).
type Client struct {
	nc        net.Conn
	dialect   wire.Dialect
	frameSize int
	onDeliver func(id uint64, content []byte)

	done       chan struct{}  // closed when the connection has ended
	goroutines sync.WaitGroup // reader and writer
	used       sync.Pool      // of *pendingCall that nobody refers to any more

	mu       sync.Mutex
	gathered sync.Cond     // out is no longer empty, or the connection has ended
	out      []byte        // frames that wait for the writer
	writing  int           // bytes in the writer's hands
	room     chan struct{} // closed when those who wait for room look again; nil: nobody waits
	issued   uint64        // ids 1 to issued have been used
	pending  map[uint64]*pendingCall
	writeErr error // why the writer gave up
	err      error // why the connection ended; nil while it lives
}

const (
	defaultFrameSize = 16 << 20

	// backlog is how many bytes may wait to be written before callers wait.
	backlog = 256 << 10

	// keptBuffer is the largest buffer that is kept for what comes next.
	keptBuffer = 2 * backlog

	// lastWords is how long the reader goes on after a failed write: what the
	// server said before it stopped reading explains more than a broken pipe.
	lastWords = time.Second
)

// pendingCall is one request and the place for its answer.
//
// It has one owner at any time. While it is in Client.pending that is nobody;
// whoever takes it out, under Client.mu, owns it. A caller that gives up and
// takes it out itself knows that nobody else ever will. The reader, or whoever
// ends the connection, takes it out, fills it in and sends its one token; a
// caller that gives up and finds it gone waits for that token, which takes no
// longer than the copying. So a caller that has its call back is the last to
// refer to it, no token is left behind, and dst is not touched after Call has
// returned.
type pendingCall struct {
	answer  wire.Command // what the reply has to be
	reply   []byte       // the caller's dst, longer by the reply's content
	result  wire.Result
	err     error // the connection ended first
	settled chan struct{}
}

// Dial connects to addr, host:port or unix:PATH as in Server.Addr, and makes a
// Client of the connection. ctx bounds the dialling only.
func Dial(ctx context.Context, addr string, o ClientOptions) (*Client, error) {
	network := "tcp"
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		network, addr = "unix", path
	}
	var d net.Dialer
	nc, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, fmt.Errorf("framed: %w", err)
	}
	return NewClient(nc, o), nil
}

// NewClient makes a Client of a connection that is open already, TLS for
// example, and owns it from then on. It starts two goroutines, which end with
// the connection.
func NewClient(nc net.Conn, o ClientOptions) *Client {
	c := &Client{
		nc:        nc,
		dialect:   o.Dialect,
		frameSize: o.FrameSize,
		onDeliver: o.OnDeliver,
		done:      make(chan struct{}),
		pending:   map[uint64]*pendingCall{},
	}
	if c.frameSize <= 0 {
		c.frameSize = defaultFrameSize
	}
	c.gathered.L = &c.mu
	c.used.New = func() any { return &pendingCall{settled: make(chan struct{}, 1)} }
	c.goroutines.Go(c.read)
	c.goroutines.Go(c.write)
	return c
}

// Call sends content as a request, waits for the reply and returns dst with the
// reply's content appended. It copies content before it waits, and does not
// touch dst after it has returned. The error is
//
//   - a wire.Result when the server answered with one that is not OK; what the
//     server said beside it is appended all the same;
//   - ctx's cause when ctx ended first: the request may have been sent, and the
//     server may still execute it; its late reply is dropped;
//   - ErrClosed, wrapping the reason, when the connection ended first: the
//     request may or may not have been executed.
//
// In the last two cases it returns dst as it was. While 256 KiB of requests
// wait to be written, Call waits before it sends. A request over the server's
// limit (engine.Limits.FrameSize, 64 KiB by default) ends the connection, for
// all who share it.
func (c *Client) Call(ctx context.Context, dst, content []byte) ([]byte, error) {
	return c.do(ctx, wire.Submit, wire.SubmitAck, dst, content)
}

// Connect sends a Conn packet with credentials or options; everything else is
// as with Call. A Conn is also the heartbeat: a server closes a connection on
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
//     server sent what is no answer, as one that speaks another dialect does;
//   - or the error of the connection: io.EOF when the server closed it without
//     a word, io.ErrUnexpectedEOF when it did so within a frame.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// do sends one request and waits for its answer.
func (c *Client) do(ctx context.Context, request, answer wire.Command, dst, content []byte) ([]byte, error) {
	call := c.used.Get().(*pendingCall)
	call.answer, call.reply = answer, dst
	id, err := c.send(ctx, wire.Packet{Command: request, Content: content}, call)
	if err != nil {
		c.reuse(call)
		return dst, err
	}
	select {
	case <-call.settled:
	case <-ctx.Done():
		if c.abandon(id) {
			c.reuse(call)
			return dst, context.Cause(ctx)
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

// send gives the request an id, puts it behind what waits for the writer, and
// call among those that wait for an answer.
func (c *Client) send(ctx context.Context, request wire.Packet, call *pendingCall) (id uint64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.awaitRoom(ctx); err != nil {
		return 0, err
	}
	request.ID = c.issued + 1
	c.out = c.dialect.Append(c.out, request) // panics for 4 GiB, so before the rest
	c.issued = request.ID
	c.pending[request.ID] = call
	c.gathered.Signal()
	return request.ID, nil
}

// awaitRoom waits until one more request may be queued; mu is held, but not
// while it waits.
func (c *Client) awaitRoom(ctx context.Context) error {
	for {
		switch {
		case c.err != nil:
			return c.err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case len(c.out)+c.writing <= backlog:
			return nil
		}
		if c.room == nil {
			c.room = make(chan struct{})
		}
		room := c.room
		c.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
		}
		c.mu.Lock()
	}
}

// lookAgain wakes all who wait for room; mu is held.
func (c *Client) lookAgain() {
	if c.room != nil {
		close(c.room)
		c.room = nil
	}
}

// abandon takes a call back from those that wait for an answer. It reports
// false when somebody else has taken it, whose token is then due.
func (c *Client) abandon(id uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, mine := c.pending[id]
	delete(c.pending, id)
	return mine
}

// reuse keeps a call that nobody else refers to.
func (c *Client) reuse(call *pendingCall) {
	*call = pendingCall{settled: call.settled}
	c.used.Put(call)
}

// end ends the connection for the reason given; the first reason wins.
func (c *Client) end(why error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = why
	calls := c.pending
	c.pending, c.out = nil, nil
	c.lookAgain()
	c.gathered.Signal()
	c.mu.Unlock()
	close(c.done)
	for _, call := range calls {
		call.err = why
		call.settled <- struct{}{}
	}
	c.nc.Close()
}

// broken ends the connection for a reason that was not ours.
func (c *Client) broken(why error) { c.end(fmt.Errorf("framed: %w: %w", ErrClosed, why)) }

// write is the writer: all that has gathered goes out in one call.
func (c *Client) write() {
	var frames []byte
	for {
		frames = c.nextFrames(frames)
		if frames == nil {
			return
		}
		if _, err := c.nc.Write(frames); err != nil {
			c.writeFailed(err)
			return
		}
	}
}

// nextFrames takes back the buffer that has been written and waits for frames to
// write; nil: the connection has ended.
func (c *Client) nextFrames(written []byte) []byte {
	if cap(written) > keptBuffer {
		written = nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writing = 0
	if len(c.out) <= backlog {
		c.lookAgain()
	}
	for len(c.out) == 0 && c.err == nil {
		c.gathered.Wait()
		c.mu.Unlock()
		runtime.Gosched() // more callers are about to call: one write for all of them
		c.mu.Lock()
	}
	frames := c.out
	c.out, c.writing = written[:0], len(frames)
	return frames
}

// writeFailed leaves the last word to the reader, for a moment.
func (c *Client) writeFailed(err error) {
	c.mu.Lock()
	c.writeErr = err
	c.mu.Unlock()
	if c.nc.SetReadDeadline(time.Now().Add(lastWords)) != nil {
		c.broken(err)
	}
}

// read is the reader: it cuts frames and gives them to whom they are for.
func (c *Client) read() {
	defer c.end(ErrClosed) // for an OnDeliver that calls runtime.Goexit
	var in received
	for {
		n, readErr := c.nc.Read(in.space())
		in.end += n
		used, need, err := c.receive(in.unserved())
		in.start += used
		in.need = need
		if err == nil && readErr != nil {
			err = c.lastError(readErr, in.start < in.end)
		}
		if err != nil {
			c.broken(err)
			return
		}
	}
}

// receive serves the whole frames at the front of in and says how many bytes
// the next one still lacks.
func (c *Client) receive(in []byte) (used, need int, err error) {
	for {
		payload, need, err := wire.Frame(in[used:], c.frameSize)
		if err != nil || need > 0 {
			return used, need, unreadable(err)
		}
		packet, err := c.dialect.Parse(payload)
		if err != nil {
			return used, 0, unreadable(err)
		}
		if err := c.dispatch(packet); err != nil {
			return used, 0, err
		}
		used += wire.HeaderSize + len(payload)
	}
}

// unreadable is why the connection ends when wire cannot read a frame: not a
// wire.Result, which would read as if the server had refused us.
func unreadable(err error) error {
	switch err {
	case nil:
		return nil
	case wire.TooLarge:
		return engine.TooLarge
	case wire.UnknownCommand:
		return engine.UnknownCommand
	}
	return engine.Malformed
}

// dispatch gives one packet to whom it is for; an error ends the connection.
func (c *Client) dispatch(p wire.Packet) error {
	switch p.Command {
	case wire.Deliver:
		if c.onDeliver != nil {
			c.onDeliver(p.ID, p.Content)
		}
		return nil
	case wire.ConnAck, wire.SubmitAck:
		if p.Command == wire.ConnAck && p.ID == 0 && p.Result != wire.OK {
			return p.Result
		}
		call, err := c.claim(p)
		if call != nil {
			call.reply, call.result = append(call.reply, p.Content...), p.Result
			call.settled <- struct{}{}
		}
		return err
	}
	return fmt.Errorf("%w: the server sent a %v", engine.UnknownCommand, p.Command)
}

// claim takes the call that p answers from those that wait. There is none, and
// no error, when the caller has given up. (A second answer looks the same:
// telling them apart would mean to remember every id that was given up.)
func (c *Client) claim(p wire.Packet) (*pendingCall, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	call := c.pending[p.ID]
	switch {
	case p.ID == 0 || p.ID > c.issued:
		return nil, fmt.Errorf("%w: %v %d, which nobody asked for", engine.Malformed, p.Command, p.ID)
	case call == nil:
		return nil, nil
	case call.answer != p.Command:
		return nil, fmt.Errorf("%w: %v %d, which was to be a %v", engine.Malformed, p.Command, p.ID, call.answer)
	}
	delete(c.pending, p.ID)
	return call, nil
}

// lastError is why nothing more can be read.
func (c *Client) lastError(err error, unfinished bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.writeErr != nil:
		return c.writeErr
	case err == io.EOF && unfinished:
		return io.ErrUnexpectedEOF
	}
	return err
}

// received is what has been read: buffer[start:end] is not served yet. It grows
// by doubling what has come, never to what a length claims.
type received struct {
	buffer     []byte
	start, end int
	need       int // bytes that the frame at start still lacks
}

const firstBuffer = 16 << 10

func (r *received) unserved() []byte { return r.buffer[r.start:r.end] }

// space is where to read to; never empty.
func (r *received) space() []byte {
	if r.start == r.end {
		r.start, r.end = 0, 0
		if len(r.buffer) == 0 || len(r.buffer) > keptBuffer {
			r.buffer = make([]byte, firstBuffer)
		}
	}
	if r.start > 0 && len(r.buffer)-r.end < r.need {
		r.end = copy(r.buffer, r.unserved())
		r.start = 0
	}
	if r.end == len(r.buffer) {
		larger := make([]byte, min(2*len(r.buffer), r.end+r.need))
		copy(larger, r.buffer)
		r.buffer = larger
	}
	return r.buffer[r.end:]
}
