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

// Compression is permessage-deflate (RFC 7692) for any number of connections. They share
// a compressor and a decompressor for each processor, 1.2 MB together at level 1, and keep
// no memory of their own: every message is compressed by itself, and offers that ask for
// more are declined. The zero value works. Do not copy or change it once it is in use.
type Compression struct {
	// Level is compress/flate's, from 1 for speed to 9 for size. Zero: 1.
	Level int
	// MinSize is the smallest message that is compressed, in bytes. Zero: 256, because
	// shorter ones gain nothing.
	MinSize int

	once      sync.Once
	deflaters chan *deflater // with nil for those that nobody has needed yet
	inflaters chan *inflater
}

// init makes room for one of each a processor: a goroutine that finds none waits for one
// of those that run.
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

// worthwhile reports whether a message of n bytes is to be compressed.
func (c *Compression) worthwhile(n int) bool {
	if c.MinSize == 0 {
		return n >= 256
	}
	return n >= c.MinSize
}

// The window of a connection is the base-2 logarithm of how far back its compressed data
// may refer.
const (
	leastWindow = 8
	mostWindow  = 15
)

// flushed is how data ends that was flushed: an empty stored block, which a message is
// sent without.
const flushed = "\x00\x00\xff\xff"

// deflate appends the parts, as one compressed message, to dst. The parts may lie in
// dst, but not in its spare capacity.
//
// A connection with a smaller window than compress/flate's gets its message in pieces of
// that size, each compressed by itself, so that nothing refers further back.
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

// deflater is one compressor and where its output goes.
type deflater struct {
	writer *flate.Writer
	out    []byte
	since  int // bytes since reset
}

func newDeflater(level int) *deflater {
	if level == 0 {
		level = flate.BestSpeed
	}
	d := &deflater{}
	w, err := flate.NewWriter(d, level)
	if err != nil {
		panic(err) // init has looked at the level
	}
	d.writer = w
	return d
}

// Write is how the compressor's output comes.
func (d *deflater) Write(p []byte) (int, error) {
	d.out = append(d.out, p...)
	return len(p), nil
}

// write compresses p. Write and Flush of d.writer have no errors but d's own, which has
// none.
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

// inflate appends what payload, the compressed message, holds to dst. It is damaged, or
// too big as soon as more than limit bytes come out, or a text that is not UTF-8.
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

// inflater is one decompressor and what it reads: the payload and the tail behind it.
type inflater struct {
	reader  io.ReadCloser
	payload bytes.Reader
	tail    bytes.Reader
}

// tail is what was left out of the message, and an empty last block, so that the end of a
// whole message is not taken for one that is cut off.
var inflateTail = []byte(flushed + "\x01\x00\x00\xff\xff")

func newInflater() *inflater {
	i := &inflater{}
	i.reader = flate.NewReader(i)
	return i
}

// ReadByte is how the decompressor takes most of its input.
func (i *inflater) ReadByte() (byte, error) {
	if b, err := i.payload.ReadByte(); err == nil {
		return b, nil
	}
	return i.tail.ReadByte()
}

// Read is how it takes stored blocks.
func (i *inflater) Read(p []byte) (int, error) {
	if n, err := i.payload.Read(p); err == nil {
		return n, nil
	}
	return i.tail.Read(p)
}

func (i *inflater) inflate(dst, payload []byte, limit int) ([]byte, fault) {
	i.payload.Reset(payload)
	i.tail.Reset(inflateTail)
	defer i.payload.Reset(nil) // the payload is not ours to keep
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

// ended judges where the last block was. It is ours, or the sender has marked one of its
// own as the last and put no more than the empty block behind it that RFC 7692 §7.2.3.4
// wants there.
func (i *inflater) ended(payload []byte) fault {
	rest := payload[len(payload)-i.payload.Len():]
	if len(rest) == 0 || len(rest) == 1 && rest[0] == 0 {
		return 0
	}
	return faultInflate
}
