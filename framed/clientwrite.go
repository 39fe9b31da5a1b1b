package framed

import (
	"runtime"
	"time"
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

// writeFailed leaves the last word to the reader, for a moment.
func (c *Client) writeFailed(err error) {
	c.mu.Lock()
	c.writeErr = err
	c.mu.Unlock()
	if c.nc.SetReadDeadline(time.Now().Add(lastWords)) != nil {
		c.broken(err)
	}
}
