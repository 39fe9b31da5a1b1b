package framed

import (
	"math"
	"runtime"
	"time"

	"github.com/hone-go/hone/wire"
)

const (
	// backlog is how many bytes may be queued for writing before callers wait.
	backlog = 256 << 10

	// keptBuffer is the largest buffer that is kept for reuse.
	keptBuffer = 2 * backlog

	// lastWords is how long the reader goes on after a failed write, because the server's
	// last reply explains more than a broken pipe.
	lastWords = time.Second
)

// write is the writer goroutine: it sends all queued frames in one call.
func (c *Client) write() {
	var frames []byte
	for {
		frames = c.nextFrames(frames)
		if frames == nil {
			return
		}
		if n, err := c.nc.Write(frames); err != nil {
			c.writeFailed(frames, n, err)
			return
		}
	}
}

// nextFrames takes back the written buffer and waits for queued frames; nil: the
// connection has ended.
func (c *Client) nextFrames(written []byte) []byte {
	if cap(written) > keptBuffer {
		written = nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writing = 0
	c.admit()
	for len(c.out) == 0 && c.err == nil {
		c.gathered.Wait()
		c.mu.Unlock()
		runtime.Gosched() // other callers may be about to send: batch their frames
		c.mu.Lock()
	}
	frames := c.out
	c.out, c.writing, c.taken = written[:0], len(frames), c.issued
	return frames
}

// writeFailed determines which requests were not sent in full, when n bytes of frames
// were, and lets the reader go on for a moment.
func (c *Client) writeFailed(frames []byte, n int, err error) {
	left := uint64(wholeFrames(frames) - wholeFrames(frames[:min(n, len(frames))]))
	c.mu.Lock()
	c.writeErr = err
	if c.err == nil {
		c.taken -= left
	}
	c.mu.Unlock()
	if c.nc.SetReadDeadline(time.Now().Add(lastWords)) != nil {
		c.broken(err)
	}
}

// wholeFrames counts the complete frames in p.
func wholeFrames(p []byte) (n int) {
	for {
		payload, need, err := wire.Frame(p, math.MaxInt)
		if err != nil || need > 0 {
			return n
		}
		p = p[wire.HeaderSize+len(payload):]
		n++
	}
}
