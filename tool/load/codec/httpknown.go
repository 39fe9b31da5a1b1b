package codec

import "bytes"

// knownHead caches the last head of a connection and its meaning. The answers to one request are
// all alike except for Date, so most heads need no parsing: the same bytes mean the same. A date
// may have any bytes other than a line end, because neither path reads it. FuzzHTTPKnownHead
// compares the two paths; BenchmarkHTTPDecode: a fifth of the time.
type knownHead struct {
	bytes  []byte // empty: nothing is cached
	head   httpHead
	date   int // where the Date's value begins; 0: no Date of the usual form
	misses int // consecutive heads that differed
}

const (
	mostKnown  = 1 << 10 // bytes of a head worth keeping
	mostMisses = 16      // after this many misses the cache is turned off
	dateLength = len("Sat, 21 Nov 2026 23:00:00 GMT")
)

// length returns how many bytes of in are the known head; 0 when it differs or is incomplete.
func (k *knownHead) length(in []byte) int {
	n := len(k.bytes)
	if n == 0 || len(in) < n {
		return 0
	}
	if bytes.Equal(in[:n], k.bytes) {
		return n
	}
	if k.date == 0 {
		return 0
	}
	behind := k.date + dateLength
	date := in[k.date:behind]
	if !bytes.Equal(in[:k.date], k.bytes[:k.date]) || !bytes.Equal(in[behind:n], k.bytes[behind:]) || bytes.IndexByte(date, '\n') >= 0 {
		return 0
	}
	copy(k.bytes[k.date:], date) // the date stays the same for a second
	return n
}

// learn caches a head that was parsed.
func (k *knownHead) learn(in []byte, head httpHead) {
	if k.misses == mostMisses {
		return
	}
	if k.misses++; k.misses == mostMisses || len(in) > mostKnown {
		k.bytes = nil
		return
	}
	k.bytes, k.head, k.date = append(k.bytes[:0], in...), head, 0
	const name = "\nDate: "
	if at := bytes.Index(in, []byte(name)); at >= 0 {
		value := at + len(name)
		if end := bytes.IndexAny(in[value:], "\r\n"); end == dateLength {
			k.date = value
		}
	}
}

// takeKnown takes the connection's last head if in begins with it.
func (c *httpCodec) takeKnown(in []byte) (int, error) {
	n := c.known.length(in)
	if n == 0 || c.headLeft < n {
		return 0, nil
	}
	c.known.misses = 0
	c.headLeft -= n
	c.head, c.size, c.keptBody = c.known.head, 0, c.keptBody[:0]
	return n, c.beginBody()
}
