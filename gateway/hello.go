package gateway

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/wire"
)

// Level is the durability that an acknowledgement promises. A client asks for a level when
// it connects, and the server grants exactly that level or refuses.
type Level uint8

// The levels. Their values are part of the wire protocol.
const (
	Default  Level = 0 // the highest level that the server's log offers
	Received Level = 1 // in the server's memory: survives a lost connection only
	Disk     Level = 2 // fsynced: survives kill -9, a kernel panic, a power cut
	Quorum   Level = 3 // on a majority of machines: survives the loss of a minority
)

var levelNames = [...]string{"default", "received", "disk", "quorum"}

// String returns the level's name.
func (l Level) String() string {
	if int(l) < len(levelNames) {
		return levelNames[l]
	}
	return fmt.Sprintf("level %d", uint8(l))
}

// MarshalText returns String as bytes.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText sets l to the level of that name.
func (l *Level) UnmarshalText(text []byte) error {
	if i := slices.Index(levelNames[:], string(text)); i >= 0 {
		*l = Level(i)
		return nil
	}
	return fmt.Errorf("gateway: there is no level %q; use %s", text, strings.Join(levelNames[1:], ", "))
}

// The reasons for which a server refuses a session or a record. Each has its result code on
// the wire (docs/gateway.md) and ends the connection.
var (
	ErrUnauthorised = errors.New("gateway: the server does not accept this token or certificate")
	ErrFenced       = errors.New("gateway: a newer session of this client has begun")
	ErrExpired      = errors.New("gateway: the server does not know this session, or has forgotten it")
	ErrLevel        = errors.New("gateway: the server's log cannot promise this level")
	ErrGap          = errors.New("gateway: a sequence number was left out")
	ErrRegressed    = errors.New("gateway: the server's log lacks records that it acknowledged")
	ErrMoved        = errors.New("gateway: another connection has this session now")
	ErrTooMany      = errors.New("gateway: the server has reached its limit of remembered clients")
	ErrDiverged     = errors.New("gateway: the log has other records of this session than this client sent")
	ErrHandshake    = errors.New("gateway: not a valid handshake of the gateway's protocol")
	errTooSlow      = errors.New("gateway: too slow; try again")

	// These concern readers only.
	ErrNoReader = errors.New("gateway: nothing is stored for a reader of this name")
	ErrShares   = errors.New("gateway: this reader has another number of shares")
	ErrAhead    = errors.New("gateway: the reader has acknowledged what it was not sent")
	errChanged  = errors.New("gateway: an operator has changed this reader; open it again")
)

// The gateway's own result codes, in addition to those of package wire.
const (
	resultFenced wire.Result = 64 + iota
	resultExpired
	resultLevel
	resultGap
	resultRegressed
	resultMoved
	resultTooMany
	resultNoReader
	resultShares
	resultAhead
	resultChanged
)

var refusals = []struct {
	err  error
	code wire.Result
}{
	{ErrUnauthorised, wire.Unauthorised},
	{ErrHandshake, wire.Malformed},
	{errTooSlow, wire.TooSlow},
	{ErrFenced, resultFenced},
	{ErrExpired, resultExpired},
	{ErrLevel, resultLevel},
	{ErrGap, resultGap},
	{ErrRegressed, resultRegressed},
	{ErrMoved, resultMoved},
	{ErrTooMany, resultTooMany},
	{ErrNoReader, resultNoReader},
	{ErrShares, resultShares},
	{ErrAhead, resultAhead},
	{errChanged, resultChanged},
}

// refusal returns what the server sends for err: its code and its text.
func refusal(err error) *framed.Refusal {
	for _, r := range refusals {
		if errors.Is(err, r.err) {
			return &framed.Refusal{Result: r.code, Content: []byte(err.Error())}
		}
	}
	return &framed.Refusal{Result: wire.Failed}
}

// refused returns the error for a result other than OK. For a code that is not the
// gateway's own, the result is the error.
func refused(code wire.Result, words []byte) error {
	for _, r := range refusals {
		if r.code == code {
			if said := strings.TrimPrefix(string(words), r.err.Error()); said != "" && said != string(words) {
				return fmt.Errorf("%w%s", r.err, said)
			}
			return r.err
		}
	}
	return code
}

// magic begins a hello and a welcome. Its last byte is the version of the protocol.
const magic = "hgw2"

// Sizes of a handshake.
const (
	maxClientID = 64
	maxToken    = 512
	helloSize   = 4 + 1 + 8 + 8 + 1 + 2 // without client and token
	welcomeSize = 4 + 1 + 8 + 8 + 4 + 4 + 4 + 4
)

// hello is the first message of a client.
type hello struct {
	level  Level
	epoch  uint64 // 0: a new session
	next   uint64 // lowest sequence number without an acknowledgement
	client string
	token  string

	instance uint64 // of the program; 0: unknown
	welcomed bool   // a server has welcomed this instance to the session before
}

// The types of the fields that follow. Readers skip others.
const (
	instanceField = 1 // in a hello: 8 bytes
	welcomedField = 2 // in a hello: no bytes
	sumField      = 1 // in a welcome: 4 bytes
)

// appendCredentials appends a name and a token, each behind its length.
func appendCredentials(dst []byte, name, token string) []byte {
	dst = append(append(dst, byte(len(name))), name...)
	return append(binary.BigEndian.AppendUint16(dst, uint16(len(token))), token...)
}

// parseCredentials reads a name and a token, and returns what follows them.
func parseCredentials(in []byte) (name, token string, rest []byte, err error) {
	n := int(in[0])
	if in = in[1:]; n+2 > len(in) {
		return "", "", nil, fmt.Errorf("%w: it ends within the name", ErrHandshake)
	}
	name = string(in[:n])
	if err := checkClientID(name); err != nil {
		return "", "", nil, fmt.Errorf("%w: %w", ErrHandshake, err)
	}
	t, rest := int(binary.BigEndian.Uint16(in[n:])), in[n+2:]
	switch {
	case t > maxToken:
		return "", "", nil, fmt.Errorf("%w: the token has %d bytes; the limit is %d", ErrHandshake, t, maxToken)
	case t > len(rest):
		return "", "", nil, fmt.Errorf("%w: it ends within the token", ErrHandshake)
	}
	return name, string(rest[:t]), rest[t:], nil
}

// appendField appends a field: its type, the length of its value, the value; without a value, nothing.
func appendField(dst []byte, kind byte, value []byte) []byte {
	if len(value) == 0 {
		return dst
	}
	return append(binary.BigEndian.AppendUint16(append(dst, kind), uint16(len(value))), value...)
}

// fields calls each for the fields in in, and reports whether they are well formed.
func fields(in []byte, each func(kind byte, value []byte)) bool {
	for len(in) > 0 {
		if len(in) < 3 || len(in) < 3+int(binary.BigEndian.Uint16(in[1:])) {
			return false
		}
		end := 3 + int(binary.BigEndian.Uint16(in[1:]))
		each(in[0], in[3:end])
		in = in[end:]
	}
	return true
}

func (h hello) append(dst []byte) []byte {
	dst = append(append(dst, magic...), byte(h.level))
	dst = binary.BigEndian.AppendUint64(dst, h.epoch)
	dst = binary.BigEndian.AppendUint64(dst, h.next)
	dst = appendCredentials(dst, h.client, h.token)
	if h.instance != 0 {
		dst = appendField(dst, instanceField, binary.BigEndian.AppendUint64(nil, h.instance))
	}
	if h.welcomed {
		dst = append(dst, welcomedField, 0, 0) // its value has no bytes
	}
	return dst
}

// parseHello accepts the bytes that append makes from a valid hello, and other fields as well.
func parseHello(in []byte) (h hello, err error) {
	switch {
	case !strings.HasPrefix(string(in), magic):
		return h, fmt.Errorf("%w: it begins with %q; this server speaks %q, and %q with readers", ErrHandshake, in[:min(len(in), len(magic))], magic, readMagic)
	case len(in) < helloSize:
		return h, fmt.Errorf("%w: %d bytes are too few", ErrHandshake, len(in))
	}
	h.level = Level(in[4])
	h.epoch, h.next = binary.BigEndian.Uint64(in[5:]), binary.BigEndian.Uint64(in[13:])
	if h.client, h.token, in, err = parseCredentials(in[21:]); err != nil {
		return h, err
	}
	whole := fields(in, func(kind byte, value []byte) {
		switch {
		case kind == instanceField && len(value) == 8:
			h.instance = binary.BigEndian.Uint64(value)
		case kind == welcomedField:
			h.welcomed = true
		}
	})
	switch {
	case !whole:
		return h, fmt.Errorf("%w: it ends within a field", ErrHandshake)
	case h.level > Quorum:
		return h, fmt.Errorf("%w: there is no level %d", ErrHandshake, h.level)
	case h.next == 0:
		return h, fmt.Errorf("%w: sequence numbers start at 1", ErrHandshake)
	case h.epoch == 0 && h.next != 1:
		return h, fmt.Errorf("%w: a new session starts at sequence number 1, not %d", ErrHandshake, h.next)
	}
	return h, nil
}

// checkClientID returns why id is not valid as a client's name, or nil.
func checkClientID(id string) error {
	if len(id) == 0 || len(id) > maxClientID {
		return fmt.Errorf("a client's name has 1 to %d bytes, not %d", maxClientID, len(id))
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return fmt.Errorf("a client's name is printable ASCII without spaces; byte %d is 0x%02x", i, id[i])
		}
	}
	return nil
}

// welcome is the server's answer to a hello that it accepts.
type welcome struct {
	level  Level
	epoch  uint64
	last   uint64 // the highest durable sequence number of the epoch
	window uint32 // maximum records in flight
	most   uint32 // maximum bytes of one record's data
	idle   time.Duration
	expiry time.Duration
	summed bool   // sum is known
	sum    uint32 // running checksum of the session's records up to last
}

func (w welcome) append(dst []byte) []byte {
	dst = append(append(dst, magic...), byte(w.level))
	dst = binary.BigEndian.AppendUint64(dst, w.epoch)
	dst = binary.BigEndian.AppendUint64(dst, w.last)
	dst = binary.BigEndian.AppendUint32(dst, w.window)
	dst = binary.BigEndian.AppendUint32(dst, w.most)
	dst = binary.BigEndian.AppendUint32(dst, wholeSeconds(w.idle))
	dst = binary.BigEndian.AppendUint32(dst, wholeSeconds(w.expiry))
	if w.summed {
		dst = appendField(dst, sumField, binary.BigEndian.AppendUint32(nil, w.sum))
	}
	return dst
}

// idleTold is the idle time that clients are told: 0 is no limit, and what is shorter than a second is one.
func (s *Server) idleTold() time.Duration {
	if s.limits.IdleTime == math.MaxInt64 { // off
		return 0
	}
	return max(s.limits.IdleTime, time.Second)
}

// wholeSeconds rounds down, so that a client that obeys the value is never late; 0 is no limit.
func wholeSeconds(d time.Duration) uint32 {
	return uint32(min(max(d/time.Second, 0), 1<<32-1))
}

func parseWelcome(in []byte) (w welcome, err error) {
	if !strings.HasPrefix(string(in), magic) || len(in) < welcomeSize {
		return w, fmt.Errorf("%w: the server's answer is not a welcome", ErrHandshake)
	}
	if !fields(in[welcomeSize:], func(kind byte, value []byte) {
		if kind == sumField && len(value) == 4 {
			w.summed, w.sum = true, binary.BigEndian.Uint32(value)
		}
	}) {
		return w, fmt.Errorf("%w: the server's welcome ends within a field", ErrHandshake)
	}
	w.level = Level(in[4])
	w.epoch, w.last = binary.BigEndian.Uint64(in[5:]), binary.BigEndian.Uint64(in[13:])
	w.window, w.most = binary.BigEndian.Uint32(in[21:]), binary.BigEndian.Uint32(in[25:])
	w.idle = time.Duration(binary.BigEndian.Uint32(in[29:])) * time.Second
	w.expiry = time.Duration(binary.BigEndian.Uint32(in[33:])) * time.Second
	if w.level == Default || w.level > Quorum || w.epoch == 0 || w.window == 0 || w.most == 0 {
		return w, fmt.Errorf("%w: a field of the server's welcome is out of range", ErrHandshake)
	}
	return w, nil
}
