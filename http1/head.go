package http1

import (
	"encoding/binary"
	"math/bits"
)

// The fast path parses only heads for which it knows exactly what net/http would produce:
// HTTP/1.1, a path, lines ending in CRLF, one Host, and at most a plain Content-Length.
// It leaves everything else to net/http. So it may be stricter than net/http but never more
// lenient. FuzzHeadAgainstNetHTTP and TestMutants check that.

const (
	maxHead   = 8 << 10  // bytes of a head; net/http serves longer ones, with its own limit
	maxBody   = 48 << 10 // bytes of a body that are buffered in memory; net/http serves longer ones
	maxFields = 100
	maxMethod = 32
	maxName   = 255 // bytes of a field name, so that its length fits in a byte
)

// verdict says which half serves a request.
type verdict uint8

const (
	incomplete verdict = iota // the end of the head has not arrived
	fast                      // the fast path knows exactly what net/http would make of it
	leave                     // net/http reads it, valid or not
)

// head is a request's head, as offsets into the bytes it was parsed from. It is reused for
// the next request.
type head struct {
	most   int  // the longest head to parse, longer ones leave; 0 or above maxHead: maxHead
	spare  int  // how many fields less than maxFields it may have, more leave
	size   int  // bytes up to and including the empty line
	length int  // of the body that follows; 0 without Content-Length, at most maxBody
	close  bool // the connection closes after the response

	method  uint16 // its length
	target  target
	seen    uint64 // bit set of the known names that have occurred
	again   uint64 // bit set of those that have occurred more than once
	count   int
	fields  [maxFields]field
	noCache bool // the first Pragma is no-cache
}

// field is one line of a head. Its value has no surrounding white space.
type field struct {
	name     uint16
	from, to uint16 // the value
	length   uint8  // of the name
	known    known
}

// What the parts of the parser return instead of the offset after what they have parsed.
const (
	needMore = 0  // the input ends too early
	giveUp   = -1 // leave
)

// parse parses the head at the start of in; more bytes may follow it. It does not allocate.
func (h *head) parse(in []byte) verdict {
	most := maxHead
	if 0 < h.most && h.most < most {
		most = h.most
	}
	if len(in) > most {
		in = in[:most]
	}
	h.length, h.close, h.seen, h.again, h.count, h.noCache = 0, false, 0, 0, 0, false
	at := h.parseLine(in)
	for at > 0 && at < len(in) && in[at] != '\r' {
		at = h.parseField(in, at)
	}
	if at > 0 {
		at = expect(in, at, "\r\n")
	}
	switch {
	case at == needMore && len(in) < most:
		return incomplete
	case at <= 0 || !h.has(hostName) || h.has(upgradeName) && h.length > 0:
		return leave
	}
	h.size = at
	return fast
}

// parseLine parses the request line.
func (h *head) parseLine(in []byte) int {
	i := 0
	for i < len(in) && i < maxMethod && bytesOf[in[i]]&tokenByte != 0 {
		i++
	}
	switch {
	case i == len(in):
		return needMore
	case i == 0 || in[i] != ' ':
		return giveUp
	case string(in[:i]) == "CONNECT" || string(in[:i]) == "PRI":
		return giveUp // their targets have another form
	}
	h.method = uint16(i)
	at := h.target.parse(in, i+1)
	if at <= 0 {
		return at
	}
	return expect(in, at, " HTTP/1.1\r\n")
}

// parseField parses one field and its line end.
func (h *head) parseField(in []byte, at int) int {
	i := at
	for i < len(in) && bytesOf[in[i]]&tokenByte != 0 {
		i++
	}
	switch {
	case i-at > maxName || h.count == maxFields-h.spare:
		return giveUp
	case i == len(in):
		return needMore
	case i == at || in[i] != ':':
		return giveUp
	}
	name := in[at:i]
	for i++; i < len(in) && isBlank(in[i]); i++ {
	}
	from := i
	for i = control(in, i); i < len(in) && in[i] == '\t'; i = control(in, i+1) {
	}
	next := expect(in, i, "\r\n")
	if next <= 0 {
		return next
	}
	for i > from && isBlank(in[i-1]) {
		i--
	}
	k := lookUp(name)
	if !h.admit(k, in[from:i]) {
		return giveUp
	}
	h.fields[h.count] = field{name: uint16(at), length: uint8(len(name)), from: uint16(from), to: uint16(i), known: k}
	h.count++
	return next
}

// admit reports whether the fast path serves requests with this field, and records what it
// determines about the connection and the body.
func (h *head) admit(k known, value []byte) bool {
	repeated := k != otherName && h.has(k)
	switch k {
	case otherName:
		return true
	case hostName:
		if repeated || !isHost(value) {
			return false
		}
	case contentLengthName:
		n, ok := parseLength(value)
		if repeated || !ok {
			return false
		}
		h.length = n
	case connectionName:
		switch {
		case equalFold(value, "close"):
			h.close = true
		case !equalFold(value, "keep-alive") && !equalFold(value, "upgrade") && !equalFold(value, "keep-alive, upgrade"):
			return false
		}
	case pragmaName:
		h.noCache = h.noCache || !repeated && string(value) == "no-cache"
	case upgradeName:
		if repeated || !equalFold(value, "websocket") {
			return false
		}
	case expectName, trailerName, transferEncodingName:
		return false
	}
	if repeated {
		h.again |= 1 << k
	}
	h.seen |= 1 << k
	return true
}

// has reports whether a field of this name has occurred.
func (h *head) has(k known) bool { return h.seen>>k&1 != 0 }

// expect returns the offset after want, which must be at in[at:].
func expect(in []byte, at int, want string) int {
	rest := in[at:]
	if len(rest) >= len(want) {
		if string(rest[:len(want)]) == want {
			return at + len(want)
		}
		return giveUp
	}
	if string(rest) == want[:len(rest)] {
		return needMore
	}
	return giveUp
}

// parseLength parses a Content-Length of at most maxBody.
func parseLength(value []byte) (n int, ok bool) {
	if len(value) == 0 || len(value) > 19 {
		return 0, false
	}
	for _, c := range value {
		if c < '0' || c > '9' {
			return 0, false
		}
		if n = 10*n + int(c-'0'); n > maxBody {
			return 0, false
		}
	}
	return n, true
}

// isHost reports whether net/http accepts value as a Host.
func isHost(value []byte) bool {
	for _, c := range value {
		if bytesOf[c]&hostByte == 0 {
			return false
		}
	}
	return true
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// equalFold reports whether b equals s, ignoring case. s is lower case or canonical.
func equalFold(b []byte, s string) bool {
	if len(b) != len(s) {
		return false
	}
	for i, c := range b {
		if x := c ^ s[i]; x != 0 && (x != ' ' || c|' ' < 'a' || c|' ' > 'z') {
			return false
		}
	}
	return true
}

// control returns the offset of the first control character in in[i:], or len(in). It scans
// eight bytes at a time because most of a head is field values.
func control(in []byte, i int) int {
	const (
		ones  = 0x0101010101010101
		highs = 0x80 * ones
	)
	for ; i+8 <= len(in); i += 8 {
		x := binary.LittleEndian.Uint64(in[i:])
		del := x ^ 0x7f*ones
		// A byte borrows only from a byte above it, so the lowest bit is exact.
		if found := ((x-' '*ones)&^x | (del-ones)&^del) & highs; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for i < len(in) && in[i] >= ' ' && in[i] != 0x7f {
		i++
	}
	return i
}
