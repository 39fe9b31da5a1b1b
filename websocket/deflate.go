package websocket

import (
	"bytes"
	"compress/flate"
	"errors"
	"io"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"unicode/utf8"
)

// Compression is permessage-deflate (RFC 7692) for any number of connections. They share one
// compressor and one decompressor per CPU, together 1.2 MB at level 1. Connections keep no
// memory of their own: every message is compressed independently (no context takeover), and
// offers that ask for more are declined. The zero value works. Do not copy or change it once
// it is in use.
type Compression struct {
	// Level is the level of compress/flate, from 1 (fastest) to 9 (smallest). Zero: 1.
	Level int
	// MinSize is the smallest message that is compressed, in bytes. Zero: 256, because
	// compressing shorter ones gains nothing.
	MinSize int

	once      sync.Once
	deflaters chan *deflater // holds nil for those that have not been needed yet
	inflaters chan *inflater
}

// init makes room for one of each per CPU. A goroutine that finds none free waits for one.
func (c *Compression) init() {
	if c.Level < 0 || c.Level > flate.BestCompression {
		panic("websocket: Compression.Level must be from 1 to 9, not " + strconv.Itoa(c.Level))
	}
	c.once.Do(func() {
		n := runtime.GOMAXPROCS(0)
		c.deflaters, c.inflaters = make(chan *deflater, n), make(chan *inflater, n)
		for range n {
			c.deflaters <- nil
			c.inflaters <- nil
		}
	})
}

// worthwhile reports whether to compress a message of n bytes.
func (c *Compression) worthwhile(n int) bool {
	if c.MinSize == 0 {
		return n >= 256
	}
	return n >= c.MinSize
}

// The window of a connection is the base-2 logarithm of how far back its compressed data may
// refer.
const (
	leastWindow = 8
	mostWindow  = 15
)

// flushed is what compressed data ends with after a flush: an empty stored block. Messages
// are sent without it.
const flushed = "\x00\x00\xff\xff"

// deflate compresses the parts as one message and appends it to dst. The parts may lie in
// dst, but not in its spare capacity.
//
// For a connection with a smaller window than compress/flate's, it compresses pieces of that
// size independently, so that no reference goes further back.
func (c *Compression) deflate(dst []byte, window uint8, parts ...[]byte) []byte {
	c.init()
	d := <-c.deflaters
	if d == nil {
		d = newDeflater(c.Level)
	}
	d.out = dst
	d.reset()
	for _, p := range parts {
		d.write(p, window)
	}
	d.flush()
	dst, d.out = d.out[:len(d.out)-len(flushed)], nil
	c.deflaters <- d
	return dst
}

// deflater is one compressor and the destination of its output.
type deflater struct {
	writer *flate.Writer
	out    []byte
	since  int // bytes since the last reset
}

func newDeflater(level int) *deflater {
	if level == 0 {
		level = flate.BestSpeed
	}
	d := &deflater{}
	w, err := flate.NewWriter(d, level)
	if err != nil {
		panic(err) // cannot happen: init has checked the level
	}
	d.writer = w
	return d
}

// Write receives the compressor's output.
func (d *deflater) Write(p []byte) (int, error) {
	d.out = append(d.out, p...)
	return len(p), nil
}

// write compresses p. Write and Flush of d.writer return only errors of d.Write, which never
// fails.
func (d *deflater) write(p []byte, window uint8) {
	if window >= mostWindow {
		_, _ = d.writer.Write(p)
		return
	}
	for len(p) > 0 {
		if d.since == 1<<window {
			d.flush()
			d.reset()
		}
		n := min(len(p), 1<<window-d.since)
		_, _ = d.writer.Write(p[:n])
		d.since += n
		p = p[n:]
	}
}

func (d *deflater) flush() { _ = d.writer.Flush() }

func (d *deflater) reset() {
	d.writer.Reset(d)
	d.since = 0
}

// inflate decompresses payload and appends the message to dst. It returns a fault if the data
// is corrupt, as soon as more than limit bytes come out, or if a text is not UTF-8.
func (c *Compression) inflate(dst, payload []byte, limit int, text bool) ([]byte, fault) {
	c.init()
	i := <-c.inflaters
	if i == nil {
		i = newInflater()
	}
	start := len(dst)
	dst, f := i.inflate(dst, payload, limit)
	c.inflaters <- i
	if f == 0 && text && !utf8.Valid(dst[start:]) {
		f = faultText
	}
	if f != 0 {
		return dst[:start], f
	}
	return dst, 0
}

// inflater is one decompressor and its input: the payload and the tail after it.
type inflater struct {
	reader  io.ReadCloser
	payload bytes.Reader
	tail    bytes.Reader
}

// inflateTail is what the sender left out of the message, plus an empty final block, so that
// the end of a complete message is not mistaken for truncation.
var inflateTail = []byte(flushed + "\x01\x00\x00\xff\xff")

func newInflater() *inflater {
	i := &inflater{}
	i.reader = flate.NewReader(i)
	return i
}

// ReadByte is how the decompressor reads most of its input.
func (i *inflater) ReadByte() (byte, error) {
	if b, err := i.payload.ReadByte(); err == nil {
		return b, nil
	}
	return i.tail.ReadByte()
}

// Read is how the decompressor reads stored blocks.
func (i *inflater) Read(p []byte) (int, error) {
	if n, err := i.payload.Read(p); err == nil {
		return n, nil
	}
	return i.tail.Read(p)
}

func (i *inflater) inflate(dst, payload []byte, limit int) ([]byte, fault) {
	i.payload.Reset(payload)
	i.tail.Reset(inflateTail)
	defer i.payload.Reset(nil) // the payload must not be retained
	if err := i.reader.(flate.Resetter).Reset(i, nil); err != nil {
		return dst, faultInflate
	}
	most := len(dst) + limit
	for {
		if len(dst) == cap(dst) {
			dst = slices.Grow(dst, min(max(2*len(payload), cap(dst), 512), most-len(dst)+1))
		}
		n, err := i.reader.Read(dst[len(dst):min(cap(dst), most+1)])
		dst = dst[:len(dst)+n]
		switch {
		case len(dst) > most:
			return dst, faultTooBig
		case errors.Is(err, io.EOF):
			return dst, i.ended(payload)
		case err != nil:
			return dst, faultInflate
		}
	}
}

// ended checks where the final block was. It must be ours, or one of the sender's own that
// is marked as final and followed only by the empty block that RFC 7692 §7.2.3.4 requires.
func (i *inflater) ended(payload []byte) fault {
	rest := payload[len(payload)-i.payload.Len():]
	if len(rest) == 0 || len(rest) == 1 && rest[0] == 0 {
		return 0
	}
	return faultInflate
}
