package codec

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hone-go/hone/tool/load/traffic"
)

// Messages is a target of any protocol that exchanges messages over a stream: the plan's content
// is sent as one message again and again, and each must be answered with one message. Messages
// does not interpret them.
type Messages struct {
	Network string  // "tcp" or "unix"; zero: tcp
	Address string  // host:port, or the socket's path
	Framing Framing // where a message ends; zero: a line
	Match   Match   // which answer belongs to which request; zero: answers come in order
	// AnswerLimit is the largest answer accepted. Zero: 16 MiB. Memory grows with
	// the bytes received, never with the length claimed.
	AnswerLimit int
	// Hello is a message that begins each connection, as that of Frames; its answer may be any. Zero: no
	// hello.
	Hello string
}

// Framing is how a stream is split into messages, both requests and answers:
//
//	line                 a message ends with a line feed; a carriage return before it is not part of an answer
//	len16be  len32be     the length comes first, in 2 or 4 bytes, big-endian
//	len16le  len32le     the same, little-endian
//	len32be+incl         the length includes itself; also for the others
//	fixed:N              every message has N bytes
//	resp                 Redis's protocol: requests are commands, and an answer is complete with all its parts
//
// The zero Framing is line.
type Framing struct {
	width  int  // of the length, in bytes; 0: no length
	little bool // little-endian
	whole  bool // the length includes itself
	fixed  int  // bytes of every message; 0: variable
	resp   bool
}

// framings are those with a name, without +incl.
func framings() map[string]Framing {
	return map[string]Framing{
		"line": {}, "resp": {resp: true},
		"len16be": {width: 2}, "len16le": {width: 2, little: true},
		"len32be": {width: 4}, "len32le": {width: 4, little: true},
	}
}

const countsItself = "+incl"

// UnmarshalText parses one of the words above, exactly.
func (f *Framing) UnmarshalText(text []byte) error {
	name, whole := strings.CutSuffix(string(text), countsItself)
	if known, ok := framings()[name]; ok && (!whole || known.width > 0) {
		*f = known
		f.whole = whole
		return nil
	}
	if digits, ok := strings.CutPrefix(string(text), "fixed:"); ok {
		if n, err := strconv.Atoi(digits); err == nil && n > 0 && n <= MostAnswer {
			*f = Framing{fixed: n}
			return nil
		}
		return fmt.Errorf("load: %q is no number of bytes; write it as in fixed:64", digits)
	}
	return fmt.Errorf("load: there is no framing %q; use line, resp, len16be, len32be, len16le or len32le, one of these with +incl, or fixed:N", text)
}

// String returns the framing as UnmarshalText parses it.
func (f Framing) String() string {
	suffix := ""
	if f.whole {
		suffix, f.whole = countsItself, false
	}
	for name, known := range framings() {
		if known == f {
			return name + suffix
		}
	}
	return fmt.Sprintf("fixed:%d", f.fixed)
}

// most returns the longest content that a request can have.
func (f Framing) most() int {
	most := MostAnswer
	if f.width == 2 {
		most = 1<<16 - 1
		if f.whole {
			most -= f.width
		}
	}
	return most
}

// Length returns how many bytes the length of a message has, and how it is written; 0: it has none.
func (f Framing) Length() (width int, order binary.AppendByteOrder) {
	if f.little {
		return f.width, binary.LittleEndian
	}
	return f.width, binary.BigEndian
}

// Append appends a message.
func (f Framing) Append(dst, content []byte) []byte {
	if f.resp {
		return appendRESP(dst, content)
	}
	n := uint32(len(content))
	if f.whole {
		n += uint32(f.width)
	}
	switch width, order := f.Length(); width {
	case 2:
		dst = order.AppendUint16(dst, uint16(n))
	case 4:
		dst = order.AppendUint32(dst, n)
	}
	dst = append(dst, content...)
	if f.isLine() {
		dst = append(dst, '\n')
	}
	return dst
}

func (f Framing) isLine() bool { return f.width == 0 && f.fixed == 0 && !f.resp }

// Cut returns the first message of in, and how many bytes it took with its frame; 0 when it is
// incomplete.
func (f Framing) Cut(in []byte, limit int) (content []byte, used int, err error) {
	from, till := 0, f.fixed
	switch {
	case f.resp:
		return cutRESP(in, limit)
	case f.isLine():
		end := bytes.IndexByte(in, '\n')
		switch {
		case end > limit || end < 0 && len(in) > limit:
			return nil, 0, tooLarge(limit)
		case end < 0:
			return nil, 0, nil
		}
		return bytes.TrimSuffix(in[:end], []byte("\r")), end + 1, nil
	case f.width > 0:
		if len(in) < f.width {
			return nil, 0, nil
		}
		from, till = f.width, f.length(in)
		if f.whole {
			till -= f.width
		}
		if till < 0 {
			return nil, 0, &Error{
				Kind: Garbage, What: fmt.Sprintf("the server sends a message whose length of %d does not count itself", f.length(in)),
				Try: "check whether the framing is the server's; without +incl it need not",
			}
		}
		till += from
	}
	if till-from > limit {
		return nil, 0, tooLarge(limit)
	}
	if len(in) < till {
		return nil, 0, nil
	}
	return in[from:till], till, nil
}

// length returns the length field at the beginning of in.
func (f Framing) length(in []byte) (n int) {
	for i := range f.width {
		at := i
		if f.little {
			at = f.width - 1 - i
		}
		n = n<<8 | int(in[at])
	}
	return n
}

// Match says which request an answer belongs to. The zero Match matches by order. Otherwise both
// carry a big-endian number at the same offset of their content, which the generator writes into the request.
// Before the answer is compared with what is expected, its number is replaced with the bytes that
// the plan's content has there.
type Match struct {
	Offset, Len int // position of the number in the content, and its length, 1 to 8 bytes; Len 0: by order
}

// UnmarshalText parses order or id@OFFSET:LEN.
func (m *Match) UnmarshalText(text []byte) error {
	wrong := fmt.Errorf("load: there is no match %q; use order, or id@OFFSET:LEN as in id@4:8", text)
	place, ok := strings.CutPrefix(string(text), "id@")
	if !ok {
		if *m = (Match{}); string(text) != "order" {
			return wrong
		}
		return nil
	}
	first, second, _ := strings.Cut(place, ":")
	offset, err := strconv.Atoi(first)
	length, err2 := strconv.Atoi(second)
	if errors.Join(err, err2) != nil || offset < 0 || offset > MostAnswer || length < 1 || length > 8 {
		return wrong
	}
	*m = Match{Offset: offset, Len: length}
	return nil
}

// String returns order, or for example id@4:8.
func (m Match) String() string {
	if m.Len == 0 {
		return "order"
	}
	return fmt.Sprintf("id@%d:%d", m.Offset, m.Len)
}

func (m Match) end() int { return m.Offset + m.Len }

func (m Match) put(content []byte, v uint64) {
	for i := range m.Len {
		content[m.end()-1-i] = byte(v >> (8 * i))
	}
}

func (m Match) get(content []byte) (v uint64) {
	for i := range m.Len {
		v = v<<8 | uint64(content[m.Offset+i])
	}
	return v
}

// Dial opens one connection, and says Hello on it. It expects no greeting of the server, which would count as the first
// answer.
func (m Messages) Dial(ctx context.Context) (net.Conn, error) {
	nc, err := Frames{Network: m.Network, Address: m.Address}.Dial(ctx)
	if err != nil || m.Hello == "" {
		return nc, err
	}
	return greet(ctx, nc, m.hello())
}

// Codec returns the state for one connection.
func (m Messages) Codec() Codec {
	if m.AnswerLimit <= 0 {
		m.AnswerLimit = MostAnswer
	}
	if m.Match.Len == 0 {
		return &orderedCodec{Messages: m}
	}
	return &numberedCodec{Messages: m}
}

// String returns the target as a user would write it.
func (m Messages) String() string { return Frames{Network: m.Network, Address: m.Address}.String() }

// Prepare refuses a load whose requests cannot be encoded.
func (m Messages) Prepare(l Load) (Route, error) {
	r := Route{Network: cmp.Or(m.Network, "tcp"), Address: m.Address}
	if m.Match.Len == 0 && m.Hello == "" {
		r.Target = &ungreeted{Messages: m}
	}
	return r, m.fits(l)
}

// ungreeted are messages whose answers come in order, and are therefore told apart from a greeting only while nothing has
// been asked: the first connection listens for a moment before it is used.
type ungreeted struct {
	Messages
	asked atomic.Bool
}

// greetTime is how long a greeting may take to be noticed.
const greetTime = 100 * time.Millisecond

// Dial opens a connection. The first fails if the server greets.
func (u *ungreeted) Dial(ctx context.Context) (net.Conn, error) {
	nc, err := u.Messages.Dial(ctx)
	if err != nil || u.asked.Swap(true) {
		return nc, err
	}
	if err = nc.SetReadDeadline(time.Now().Add(greetTime)); err == nil {
		var one [1]byte
		if n, _ := nc.Read(one[:]); n > 0 {
			err = unasked("framing " + u.Framing.String())
		} else {
			err = nc.SetReadDeadline(time.Time{}) // an end of the connection is the next reader's
		}
	}
	if err != nil {
		nc.Close()
		return nil, err
	}
	return nc, nil
}

func (m Messages) fits(l Load) error {
	least, most, number := l.Least, l.Most, m.Match
	if most > m.Framing.most() {
		return badTarget(fmt.Sprintf("content of %d bytes in a message of %v", most, m.Framing), fmt.Sprintf("send %d bytes at most", m.Framing.most()))
	}
	if m.Framing.fixed > 0 && (least != m.Framing.fixed || most != m.Framing.fixed) {
		return badTarget(fmt.Sprintf("content of %s bytes in a message of %v", fromTo(least, most), m.Framing), fmt.Sprintf("send %d bytes", m.Framing.fixed))
	}
	ends := func(text []byte) bool { return bytes.HasSuffix(text, []byte("\n")) } // within a message it may be the protocol's
	if m.Framing.isLine() && (ends(l.Content) || ends(l.Expect) || ends([]byte(m.Hello))) {
		return badTarget("a line feed at the end of a message of line", "leave it out: the framing adds it")
	}
	if number.Len == 0 {
		return nil
	}
	if number.Offset < 0 || number.Len < 0 || number.Len > 8 {
		return badTarget(fmt.Sprintf("the match %v", number), "have 1 to 8 bytes for the number")
	}
	switch {
	case m.Framing.isLine(), m.Framing.resp:
		return badTarget(fmt.Sprintf("the match %v with the framing %v", number, m.Framing), "match by order: the bytes of a number may be a line's end")
	case number.end() > least:
		return badTarget(fmt.Sprintf("the match %v in content of %s bytes", number, fromTo(least, most)), "send content with room for the number")
	case number.Len == 1 && l.Depth > 1<<8:
		return badTarget(fmt.Sprintf("the match %v with a depth of %d", number, l.Depth), "use a depth of 256 at most")
	}
	return nil
}

func fromTo(least, most int) string {
	if least == most {
		return strconv.Itoa(most)
	}
	return fmt.Sprintf("%d to %d", least, most)
}

// orderedCodec matches answers by their order.
type orderedCodec struct {
	Messages
	InOrder
	asked Queue[uint64]
}

func (c *orderedCodec) AppendRequest(dst []byte, id uint64, content []byte, _ *traffic.Session) []byte {
	c.asked.Push(id)
	return c.Framing.Append(dst, content)
}

func (c *orderedCodec) Decode(a *Answer, in []byte) (used int, err error) {
	if c.asked.Len() == 0 && len(in) > 0 {
		return 0, unasked("framing " + c.Framing.String())
	}
	content, used, err := c.Framing.Cut(in, c.AnswerLimit)
	if used > 0 {
		if a.ID, a.Content = c.asked.Pop(), content; c.Framing.resp {
			a.Err = failureOfRESP(in)
		}
	}
	return used, err
}

// numberedCodec matches answers by their number, which may be shorter than the plan's ids.
// Numbers are reused in turn, as late as possible, so that a duplicate answer is detected.
type numberedCodec struct {
	Messages
	ids  []uint64      // by number; 0: free
	free Queue[uint64] // free numbers
	owns [][8]byte     // by number: the bytes that the request's content has at the number's offset
	lost int           // numbers of requests that were given up
}

// forgotten replaces the id of a request that was given up.
const forgotten = ^uint64(0)

// Forget gives up the answer to id, as long as enough numbers are free for any depth.
func (c *numberedCodec) Forget(id uint64) bool {
	const longEnough = 3 // bytes, for more numbers than the largest depth
	if c.Match.Len < longEnough || c.lost == mostForgotten {
		return false
	}
	c.lost++
	c.ids[slices.Index(c.ids, id)] = forgotten
	return true
}

// Repeats returns false.
func (c *numberedCodec) Repeats(uint64) bool { return false }

func (c *numberedCodec) AppendRequest(dst []byte, id uint64, content []byte, _ *traffic.Session) []byte {
	const least = 16
	if c.free.Len() < least/2 && len(c.ids) < 1<<min(8*c.Match.Len, 17) {
		for range max(least, len(c.ids)) {
			c.free.Push(uint64(len(c.ids)))
			c.ids, c.owns = append(c.ids, 0), append(c.owns, [8]byte{})
		}
	}
	number := c.free.Pop()
	c.ids[number] = id
	copy(c.owns[number][:c.Match.Len], content[c.Match.Offset:])
	from := len(dst) + c.Framing.width
	dst = c.Framing.Append(dst, content)
	c.Match.put(dst[from:], number)
	return dst
}

func (c *numberedCodec) Decode(a *Answer, in []byte) (used int, err error) {
	content, used, err := c.Framing.Cut(in, c.AnswerLimit)
	if used == 0 || err != nil {
		return 0, err
	}
	if len(content) < c.Match.end() {
		return 0, &Error{
			Kind: Garbage, What: fmt.Sprintf("the server's answer of %d bytes is too short for the match %v", len(content), c.Match),
			Try: "check that the match and the framing are the server's",
		}
	}
	number := c.Match.get(content)
	if number >= uint64(len(c.ids)) || c.ids[number] == 0 {
		return 0, &Error{
			Kind: WrongID, What: fmt.Sprintf("the server answers number %#x, which is not outstanding on that connection", number),
			Try: "check that the match is the server's, and that it answers every request once",
		}
	}
	if c.ids[number] == forgotten {
		c.lost--
	} else {
		a.ID, a.Content = c.ids[number], content
		copy(content[c.Match.Offset:], c.owns[number][:c.Match.Len])
	}
	c.ids[number] = 0
	c.free.Push(number)
	return used, nil
}

// hello says the target's hello.
func (m Messages) hello() func(net.Conn) error {
	return func(nc net.Conn) error {
		if _, err := nc.Write(m.Framing.Append(nil, named(m.Hello))); err != nil {
			return err
		}
		return await(nc, "a hello", func(in []byte) (used int, err error) {
			if _, used, err = m.Framing.Cut(in, mostHead); used > 0 && m.Framing.resp {
				if why := failureOfRESP(in); why != nil {
					return 0, refused(why)
				}
			}
			return used, err
		})
	}
}
