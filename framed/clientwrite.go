package framed

import (
	"math"
	"runtime"
	"time"

	"github.com/hone-go/hone/wire"
)

const (
	// backlog is how many bytes may wait to be written before callers wait.
	backlog = 256 << 10

	// keptBuffer is the largest buffer that is kept for what comes next.
	keptBuffer = 2 * backlog

	// lastWords is how long the reader goes on after a failed write: what the
	// server said before it stopped reading explains more than a broken pipe.
	lastWords = time.Second
)

// write is the writer: all that has gathered goes out in one call.
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

// nextFrames takes back the buffer that has been written and waits for frames to
// write; nil: the connection has ended.
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
		runtime.Gosched() // more callers are about to call: one write for all of them
		c.mu.Lock()
	}
	frames := c.out
	c.out, c.writing, c.taken = written[:0], len(frames), c.issued
	return frames
}

// writeFailed notes which requests have not left whole, when n bytes of frames
// have, and leaves the last word to the reader, for a moment.
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

// wholeFrames counts the frames that p holds to their end.
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
