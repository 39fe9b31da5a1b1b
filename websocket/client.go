package websocket

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// Client is a connection to a server. Its methods may be called from any goroutines at
// once. Somebody must call Read, again and again: that is also what answers the server's
// pings and hears of its Close.
//
// A context that ends makes a method return and leaves the connection as it is: what was
// being read is there for the next Read, and a message that was being written still goes
// as a whole.
type Client struct {
	nc          net.Conn
	subprotocol string
	compression *Compression
	window      uint8 // 0: nothing is compressed

	reading chan struct{} // holds a token while somebody reads; guards the next five
	decoder decoder
	in      []byte // in[start:end] has been read and not used
	start   int
	end     int
	broken  error // why nothing more can be read

	writing  chan struct{} // holds a token while somebody writes; guards the next two
	out      []byte
	deflated []byte

	goroutines sync.WaitGroup // that end a write, or answer pings
	over       chan struct{}  // closed when the connection has ended: nothing more comes

	mu    sync.Mutex
	pongs []byte // frames that wait for the right to write
	said  bool   // our Close frame has gone, or cannot go any more
	pings uint64
	waits map[uint64]chan struct{} // closed by the pong to that ping
}

const (
	firstBuffer = 4 << 10
	keptBuffer  = 64 << 10 // a larger buffer is not kept beyond its message
	mostPongs   = 16 << 10 // bytes of pongs that may wait; beyond it the last ping alone is answered
	closeTime   = 5 * time.Second
	endTime     = time.Second // how long a server may take to close the connection after both Close frames
)

func newClient(nc net.Conn, rest []byte, h handshake, o *Options) *Client {
	c := &Client{
		nc: nc, subprotocol: h.protocol, compression: o.Compression, window: h.window,
		reading: make(chan struct{}, 1), writing: make(chan struct{}, 1), over: make(chan struct{}),
	}
	c.decoder.limit, c.decoder.window = orDefault(o.MessageSize, defaultClientSize), h.window
	c.in = make([]byte, max(firstBuffer, len(rest)))
	c.end = copy(c.in, rest)
	return c
}

// orDefault is n, or otherwise.
func orDefault(n, otherwise int) int {
	if n > 0 {
		return n
	}
	return otherwise
}

// Subprotocol is what the server has chosen, or "".
func (c *Client) Subprotocol() string { return c.subprotocol }

// CloseError is why a connection has ended: the Close frame that has come, or a Close that
// an Upgrader.Message asks for. It wraps its Code, and ErrClosed.
type CloseError struct {
	Code Code
	Text string // at most 123 bytes are sent
}

// Error says the code and the text.
func (e *CloseError) Error() string {
	if e.Text == "" {
		return e.Code.Error()
	}
	return e.Code.Error() + ": " + e.Text
}

// Unwrap is the code, and ErrClosed.
func (e *CloseError) Unwrap() []error { return []error{e.Code, ErrClosed} }

// Read waits for the next message, appends it to dst and returns that. The error is
//
//   - ctx's cause when ctx has ended first;
//   - a *CloseError when the server has closed the connection;
//   - ErrClosed, wrapping the reason, when it has ended otherwise.
//
// It allocates nothing when the message fits into dst and ctx cannot end.
func (c *Client) Read(ctx context.Context, dst []byte) (Kind, []byte, error) {
	if err := acquire(ctx, c.reading); err != nil {
		return 0, dst, err
	}
	defer release(c.reading)
	return c.read(ctx, dst)
}

// acquire takes the token of a lock, unless ctx ends first.
func acquire(ctx context.Context, lock chan struct{}) error {
	select {
	case lock <- struct{}{}:
		return nil
	default:
	}
	select {
	case lock <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func release(lock chan struct{}) { <-lock }

// read is Read for who has the right to.
func (c *Client) read(ctx context.Context, dst []byte) (Kind, []byte, error) {
	for c.broken == nil {
		kind, more, err := c.next(dst)
		switch {
		case err != nil:
			c.breakDown(err)
		case kind != 0:
			return kind, more, nil
		default:
			if err := c.fill(ctx); err != nil {
				return 0, dst, err
			}
		}
	}
	return 0, dst, c.broken
}

// next takes what has arrived: the next message, which it appends to dst, or no kind. An
// error ends the connection.
func (c *Client) next(dst []byte) (Kind, []byte, error) {
	for {
		e, f := c.decoder.next(c.in[c.start:c.end])
		if f != 0 {
			c.lastWords(f.code(), f.String())
			return 0, dst, fmt.Errorf("%w: %w", ErrClosed, f)
		}
		switch e.op {
		case opContinuation:
			return 0, dst, nil
		case opPing:
			c.pong(e.payload)
		case opPong:
			c.ponged(e.payload)
		case opClose:
			code, text, _ := parseClose(e.payload)
			c.lastWords(code, "")
			c.awaitEnd()
			return 0, dst, &CloseError{Code: code, Text: string(text)}
		default:
			dst, err := c.content(dst, e)
			c.start += e.used
			return Kind(e.op), dst, err
		}
		c.start += e.used
	}
}

// content appends a message to dst.
func (c *Client) content(dst []byte, e event) ([]byte, error) {
	if !e.compressed {
		return append(dst, e.payload...), nil
	}
	dst, f := c.compression.inflate(dst, e.payload, c.decoder.limit, e.op == opText)
	if f != 0 {
		c.lastWords(f.code(), f.String())
		return dst, fmt.Errorf("%w: %w", ErrClosed, f)
	}
	return dst, nil
}

// lastWords writes a Close frame for who reads. Whoever writes for longer than that may
// take is cut off: nobody listens to it any more.
func (c *Client) lastWords(code Code, text string) {
	c.nc.SetWriteDeadline(time.Now().Add(endTime))
	c.writing <- struct{}{}
	c.sayClose(code, text)
}

// awaitEnd waits until the server closes the connection, which is its part.
func (c *Client) awaitEnd() {
	c.nc.SetReadDeadline(time.Now().Add(endTime))
	for {
		if _, err := c.nc.Read(c.in); err != nil {
			return
		}
	}
}

// fill reads from the socket. An error leaves the connection as it is.
func (c *Client) fill(ctx context.Context) error {
	c.makeRoom()
	var ended func() bool
	if ctx.Done() != nil {
		ended = whenDone(ctx, func() { c.nc.SetReadDeadline(past()) })
	}
	n, err := c.nc.Read(c.in[c.end:])
	cut := ended != nil && ended()
	if cut {
		c.nc.SetReadDeadline(time.Time{})
	}
	c.end += n
	switch {
	case n > 0 || err == nil:
	case cut && errors.Is(err, os.ErrDeadlineExceeded):
		return context.Cause(ctx)
	default:
		if err == io.EOF {
			err = io.ErrUnexpectedEOF // without a Close frame
		}
		c.breakDown(fmt.Errorf("%w: %w", ErrClosed, err))
	}
	return nil
}

// appendMessage appends the frame of a message.
func (c *Client) appendMessage(dst []byte, kind Kind, msg []byte) []byte {
	first := byte(kind) | finBit
	if c.window != 0 && c.compression.worthwhile(len(msg)) {
		c.deflated = c.compression.deflate(c.deflated[:0], c.window, msg)
		if len(c.deflated) < len(msg) {
			return appendMasked(dst, first|compressedBit, c.deflated)
		}
	}
	return appendMasked(dst, first, msg)
}

// breakDown notes why nothing more comes, and closes the socket.
func (c *Client) breakDown(err error) {
	c.mu.Lock()
	c.said = true
	c.mu.Unlock()
	c.broken = err
	c.nc.Close()
	close(c.over)
}

// makeRoom has space behind what was read.
func (c *Client) makeRoom() {
	if c.start == c.end {
		c.start, c.end = 0, 0
		if len(c.in) > keptBuffer {
			c.in = make([]byte, firstBuffer)
		}
	}
	if c.end < len(c.in) {
		return
	}
	to := c.in
	if c.start < len(c.in)/2 {
		to = make([]byte, 2*len(c.in))
	}
	c.end = copy(to, c.in[c.start:c.end])
	c.in, c.start = to, 0
}

// Write sends a message. When ctx ends first, its cause is returned: the message was not
// sent if it had to wait for others, else it still goes. Text must be valid UTF-8. A
// context that can end costs a goroutine for the time of the write.
func (c *Client) Write(ctx context.Context, kind Kind, msg []byte) error {
	if err := acquire(ctx, c.writing); err != nil {
		return err
	}
	c.out = c.appendMessage(c.out[:0], kind, msg)
	return c.send(ctx)
}

// send writes out and gives the right to write back.
func (c *Client) send(ctx context.Context) error {
	c.mu.Lock()
	if c.said {
		c.mu.Unlock()
		c.unlock()
		return ErrClosed
	}
	if ctx.Done() == nil {
		c.mu.Unlock()
		_, err := c.nc.Write(c.out)
		c.unlock()
		return closedBy(err)
	}
	written := make(chan error, 1)
	c.goroutines.Go(func() {
		_, err := c.nc.Write(c.out)
		c.unlock()
		written <- closedBy(err)
	})
	c.mu.Unlock()
	select {
	case err := <-written:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// closedBy is the error of a write.
func closedBy(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrClosed, err)
}

// unlock gives the right to write back, when the pongs that have gathered are written.
func (c *Client) unlock() {
	if cap(c.out) > keptBuffer {
		c.out, c.deflated = nil, nil
	}
	for {
		c.mu.Lock()
		if len(c.pongs) == 0 || c.said {
			release(c.writing)
			c.mu.Unlock()
			return
		}
		c.out = append(c.out[:0], c.pongs...)
		c.pongs = c.pongs[:0]
		c.mu.Unlock()
		c.nc.Write(c.out) // what has failed is found out by Read
	}
}

// pong has a ping answered by whoever may write. Reading must not wait for writing: a
// server that waits for us to read would wait for ever.
func (c *Client) pong(payload []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.said {
		return
	}
	if len(c.pongs) > mostPongs {
		c.pongs = c.pongs[:0]
	}
	c.pongs = appendMasked(c.pongs, byte(opPong)|finBit, payload)
	select {
	case c.writing <- struct{}{}:
		c.goroutines.Go(c.unlock)
	default: // who writes does it
	}
}

// Ping sends a ping and waits until it is answered, which Read hears: one must be under way.
func (c *Client) Ping(ctx context.Context) error {
	if err := acquire(ctx, c.writing); err != nil {
		return err
	}
	answered := make(chan struct{})
	c.mu.Lock()
	c.pings++
	n := c.pings
	if c.waits == nil {
		c.waits = map[uint64]chan struct{}{}
	}
	c.waits[n] = answered
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.waits, n)
		c.mu.Unlock()
	}()
	c.out = appendMasked(c.out[:0], byte(opPing)|finBit, binary.BigEndian.AppendUint64(nil, n))
	if err := c.send(ctx); err != nil {
		return err
	}
	select {
	case <-answered:
		return nil
	case <-c.over:
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ponged takes a pong. One to a ping that was not ours means nothing.
func (c *Client) ponged(payload []byte) {
	if len(payload) != 8 {
		return
	}
	n := binary.BigEndian.Uint64(payload)
	c.mu.Lock()
	defer c.mu.Unlock()
	if answered := c.waits[n]; answered != nil {
		delete(c.waits, n)
		close(answered)
	}
}

// Close sends a Close frame, waits for the server's, for five seconds at most, and closes
// the socket. Messages that come meanwhile and that nobody reads are dropped. The error
// says why the server's did not come. When it returns, the client has no goroutines left.
func (c *Client) Close(code Code, text string) error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	err := c.close(ctx, code, text)
	c.mu.Lock()
	c.said = true // from here on no goroutine begins
	c.mu.Unlock()
	c.nc.Close()
	c.goroutines.Wait()
	return err
}

func (c *Client) close(ctx context.Context, code Code, text string) error {
	err := acquire(ctx, c.writing)
	if err == nil {
		c.sayClose(code, text)
	}
	for err == nil {
		select {
		case <-c.over:
			err = c.broken
		case <-ctx.Done():
			err = ctx.Err()
		case c.reading <- struct{}{}:
			_, _, err = c.read(ctx, nil)
			release(c.reading)
		}
	}
	if _, ok := errors.AsType[*CloseError](err); ok {
		return nil
	}
	return fmt.Errorf("websocket: close: %w", err)
}

// sayClose writes our Close frame, unless that was done, and gives the right to write back.
func (c *Client) sayClose(code Code, text string) {
	c.mu.Lock()
	said := c.said
	c.said = true
	c.mu.Unlock()
	if !said {
		c.out = appendMasked(c.out[:0], byte(opClose)|finBit, appendClosePayload(nil, code, text))
		c.nc.SetWriteDeadline(time.Now().Add(endTime))
		c.nc.Write(c.out) // what has failed is found out by Read
	}
	c.unlock()
}
