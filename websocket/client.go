package websocket

import (
	"cmp"
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

// Client is a client's side of a connection. Its methods are safe for concurrent use. The
// user must keep calling Read: Read also answers the server's pings and notices its Close.
//
// If a context ends, the method returns and the connection stays as it is: the next Read
// gets the message that was being read, and a message that was being written is still sent
// as a whole.
type Client struct {
	nc          net.Conn
	subprotocol string
	compression *Compression
	window      uint8 // 0: no compression

	reading chan struct{} // holds a token while a goroutine reads; guards the next five fields
	decoder decoder
	in      []byte // in[start:end] has been read but not consumed
	start   int
	end     int
	broken  error // why nothing more can be read

	writing  chan struct{} // holds a token while a goroutine writes; guards the next two fields
	out      []byte
	deflated []byte

	goroutines sync.WaitGroup // goroutines that finish a write or answer pings
	over       chan struct{}  // closed when the connection has ended and nothing more arrives

	mu        sync.Mutex
	pongs     []byte // frames that wait for the writing token
	closeSent bool   // our Close frame has been sent, or cannot be sent any more
	pings     uint64
	waits     map[uint64]chan struct{} // each is closed by the pong to that ping
}

const (
	firstBuffer = 4 << 10
	keptBuffer  = 64 << 10 // a larger buffer is freed after its message
	mostPongs   = 16 << 10 // bytes of pongs that may wait; beyond it only the last ping is answered
	closeTime   = 5 * time.Second
	endTime     = time.Second // how long a server may take to close the connection after both Close frames
)

func newClient(nc net.Conn, rest []byte, h handshake, o *Options) *Client {
	c := &Client{
		nc: nc, subprotocol: h.protocol, compression: o.Compression, window: h.window,
		reading: make(chan struct{}, 1), writing: make(chan struct{}, 1), over: make(chan struct{}),
	}
	c.decoder.limit, c.decoder.window = o.MessageSize, h.window
	c.in = make([]byte, max(firstBuffer, len(rest)))
	c.end = copy(c.in, rest)
	return c
}

// mostMessage is the longest message that the decoder and inflate can count.
const mostMessage = 1 << 30

// messageSize returns n, the MessageSize of options, or otherwise if n is 0.
func messageSize(options string, n, otherwise int) int {
	if n < 0 {
		panic("websocket: " + options + ".MessageSize is negative; set the longest message to accept, or 0 for the default")
	}
	return min(cmp.Or(n, otherwise), mostMessage)
}

// Subprotocol returns the subprotocol that the server chose, or "".
func (c *Client) Subprotocol() string { return c.subprotocol }

// CloseError is why a connection ended: the Close frame that the peer sent, or a Close that
// Upgrader.Message asks for by returning it. It wraps its Code and ErrClosed.
type CloseError struct {
	Code Code
	Text string // only the first 123 bytes are sent
}

// Error returns the code and the text.
func (e *CloseError) Error() string {
	if e.Text == "" {
		return e.Code.Error()
	}
	return e.Code.Error() + ": " + e.Text
}

// Unwrap returns the code and ErrClosed.
func (e *CloseError) Unwrap() []error { return []error{e.Code, ErrClosed} }

// Read waits for the next message, appends it to dst and returns the result. The error is
//
//   - ctx's cause if ctx ended first;
//   - a *CloseError if the server closed the connection with a Close frame;
//   - ErrClosed, wrapping the reason, if the connection ended in any other way.
//
// Read allocates nothing if the message fits into dst and ctx cannot end.
func (c *Client) Read(ctx context.Context, dst []byte) (Kind, []byte, error) {
	if err := acquire(ctx, c.reading); err != nil {
		return 0, dst, err
	}
	defer release(c.reading)
	return c.read(ctx, dst)
}

// acquire takes a lock's token, unless ctx ends first.
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

// read is Read for the holder of the reading token.
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

// next consumes what has arrived. It appends the next complete message to dst, or returns
// Kind 0. An error ends the connection.
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

// content appends the content of a message to dst.
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

// lastWords sends a Close frame on behalf of the reader. A write in progress gets a deadline,
// because the server no longer reads.
func (c *Client) lastWords(code Code, text string) {
	c.nc.SetWriteDeadline(time.Now().Add(endTime))
	c.writing <- struct{}{}
	c.sayClose(code, text)
}

// awaitEnd waits until the server closes the connection: closing is the server's part.
func (c *Client) awaitEnd() {
	c.nc.SetReadDeadline(time.Now().Add(endTime))
	for {
		if _, err := c.nc.Read(c.in); err != nil {
			return
		}
	}
}

// fill reads from the socket. If ctx ends, the connection stays as it is.
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
			err = io.ErrUnexpectedEOF // the server did not send a Close frame
		}
		c.breakDown(fmt.Errorf("%w: %w", ErrClosed, err))
	}
	return nil
}

// appendMessage appends a message's frame.
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

// breakDown records why nothing more can be read, and closes the socket.
func (c *Client) breakDown(err error) {
	c.mu.Lock()
	c.closeSent = true
	c.mu.Unlock()
	c.broken = err
	c.nc.Close()
	close(c.over)
}

// makeRoom makes room in the buffer after what has been read.
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

// Write sends a message. If ctx ends first, Write returns its cause: a message that was still
// waiting for other writes is not sent, one that was already being written is. Text must be
// valid UTF-8. A context that can end costs one goroutine for the duration of the write.
func (c *Client) Write(ctx context.Context, kind Kind, msg []byte) error {
	if err := acquire(ctx, c.writing); err != nil {
		return err
	}
	c.out = c.appendMessage(c.out[:0], kind, msg)
	return c.send(ctx)
}

// send writes c.out and releases the writing token.
func (c *Client) send(ctx context.Context) error {
	c.mu.Lock()
	if c.closeSent {
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

// closedBy wraps the error of a write.
func closedBy(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrClosed, err)
}

// unlock writes the pongs that have accumulated and releases the writing token.
func (c *Client) unlock() {
	if cap(c.out) > keptBuffer {
		c.out, c.deflated = nil, nil
	}
	for {
		c.mu.Lock()
		if len(c.pongs) == 0 || c.closeSent {
			release(c.writing)
			c.mu.Unlock()
			return
		}
		c.out = append(c.out[:0], c.pongs...)
		c.pongs = c.pongs[:0]
		c.mu.Unlock()
		c.nc.Write(c.out) // Read reports a failure
	}
}

// pong answers a ping, or leaves that to the goroutine that is writing. Reading must never
// wait for writing: if the server also waits for us to read, that would be a deadlock.
func (c *Client) pong(payload []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closeSent {
		return
	}
	if len(c.pongs) > mostPongs {
		c.pongs = c.pongs[:0]
	}
	c.pongs = appendMasked(c.pongs, byte(opPong)|finBit, payload)
	select {
	case c.writing <- struct{}{}:
		c.goroutines.Go(c.unlock)
	default: // the writer does it
	}
}

// Ping sends a ping and waits for its pong. Only Read receives it, so a Read must be running.
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

// ponged handles a pong. It ignores one that answers no ping of ours.
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

// Close sends a Close frame, waits up to five seconds for the server's, and closes the socket.
// It drops unread messages that arrive meanwhile. The error says why the server's Close frame
// did not arrive. When Close returns, the client has no goroutines left.
func (c *Client) Close(code Code, text string) error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	err := c.close(ctx, code, text)
	c.mu.Lock()
	c.closeSent = true // no goroutine starts after this
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

// sayClose sends our Close frame if none has been sent, and releases the writing token.
func (c *Client) sayClose(code Code, text string) {
	c.mu.Lock()
	sent := c.closeSent
	c.closeSent = true
	c.mu.Unlock()
	if !sent {
		c.out = appendMasked(c.out[:0], byte(opClose)|finBit, appendClosePayload(nil, code, text))
		c.nc.SetWriteDeadline(time.Now().Add(endTime))
		c.nc.Write(c.out) // Read reports a failure
	}
	c.unlock()
}
