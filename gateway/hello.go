package gateway

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/wire"
)

// Level is what an acknowledgement promises. A client asks for one by name when it
// connects, and the server grants exactly that or refuses.
type Level uint8

// The levels. The numbers are on the wire.
const (
	Default  Level = 0 // the most durable that the server's log offers
	Received Level = 1 // in the server's memory: survives a lost connection, nothing else
	Disk     Level = 2 // fsynced: survives kill -9, a kernel panic, a power cut
	Quorum   Level = 3 // on a majority of machines: survives the loss of a minority
)

var levelNames = [...]string{"default", "received", "disk", "quorum"}

// String is the level's name.
func (l Level) String() string {
	if int(l) < len(levelNames) {
		return levelNames[l]
	}
	return fmt.Sprintf("level %d", uint8(l))
}

// MarshalText is String.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText sets l to the level of that name.
func (l *Level) UnmarshalText(text []byte) error {
	for i, name := range levelNames {
		if name == string(text) {
			*l = Level(i)
			return nil
		}
	}
	return fmt.Errorf("gateway: there is no level %q; use %s", text, strings.Join(levelNames[1:], ", "))
}

// Why a server refuses a session or a record. Each is one result code on the wire
// (docs/gateway.md), and ends the connection.
var (
	ErrUnauthorised = errors.New("gateway: the server does not accept this client's token or certificate")
	ErrFenced       = errors.New("gateway: a newer session of this client has begun")
	ErrExpired      = errors.New("gateway: the server does not know this session, or no longer")
	ErrLevel        = errors.New("gateway: the server's log cannot promise this level")
	ErrGap          = errors.New("gateway: a sequence number was left out")
	ErrRegressed    = errors.New("gateway: the server's log lacks records that it acknowledged")
	ErrMoved        = errors.New("gateway: another connection has this session now")
	ErrTooMany      = errors.New("gateway: the server remembers as many clients as it may")
	ErrHandshake    = errors.New("gateway: this is not a handshake of the gateway's protocol")
)

// The gateway's own results on the wire, beside those of package wire.
const (
	resultFenced wire.Result = 64 + iota
	resultExpired
	resultLevel
	resultGap
	resultRegressed
	resultMoved
	resultTooMany
)

var refusals = []struct {
	err  error
	code wire.Result
}{
	{ErrUnauthorised, wire.Unauthorised},
	{ErrHandshake, wire.Malformed},
	{ErrFenced, resultFenced},
	{ErrExpired, resultExpired},
	{ErrLevel, resultLevel},
	{ErrGap, resultGap},
	{ErrRegressed, resultRegressed},
	{ErrMoved, resultMoved},
	{ErrTooMany, resultTooMany},
}

// refusal is err as the client is told: its code, and its words.
func refusal(err error) *framed.Refusal {
	for _, r := range refusals {
		if errors.Is(err, r.err) {
			return &framed.Refusal{Result: r.code, Content: []byte(err.Error())}
		}
	}
	return &framed.Refusal{Result: wire.Failed}
}

// refused is the error that a result other than OK stands for. A code that is none of the
// gateway's is the result itself.
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

// magic begins a hello and a welcome; its last byte is the version.
const magic = "hgw1"

// Bounds of a handshake.
const (
	mostClientID = 64
	mostToken    = 512
	helloSize    = 4 + 1 + 8 + 8 + 1 + 2 // without client and token
	welcomeSize  = 4 + 1 + 8 + 8 + 4 + 4 + 4 + 4
)

// hello is what a client says first.
type hello struct {
	level  Level
	epoch  uint64 // 0: a new session
	next   uint64 // the lowest sequence number that it has not seen acknowledged
	client string
	token  string
}

func (h hello) append(dst []byte) []byte {
	dst = append(dst, magic...)
	dst = append(dst, byte(h.level))
	dst = binary.BigEndian.AppendUint64(dst, h.epoch)
	dst = binary.BigEndian.AppendUint64(dst, h.next)
	dst = append(dst, byte(len(h.client)))
	dst = append(dst, h.client...)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(h.token)))
	return append(dst, h.token...)
}

// parseHello accepts exactly what append makes of a hello that can be.
func parseHello(in []byte) (h hello, err error) {
	if len(in) < helloSize || string(in[:4]) != magic {
		return h, fmt.Errorf("%w: it does not begin with %q", ErrHandshake, magic)
	}
	h.level = Level(in[4])
	h.epoch, h.next = binary.BigEndian.Uint64(in[5:]), binary.BigEndian.Uint64(in[13:])
	n := int(in[21])
	in = in[22:]
	if n+2 > len(in) {
		return h, fmt.Errorf("%w: it ends within the client's name", ErrHandshake)
	}
	name, in := in[:n], in[n:]
	if err := checkClientID(string(name)); err != nil {
		return h, fmt.Errorf("%w: %w", ErrHandshake, err)
	}
	if t := int(binary.BigEndian.Uint16(in)); t > mostToken || t != len(in)-2 {
		return h, fmt.Errorf("%w: the token's length is %d and %d bytes follow; at most %d may", ErrHandshake, t, len(in)-2, mostToken)
	}
	h.client, h.token = string(name), string(in[2:])
	switch {
	case h.level > Quorum:
		return h, fmt.Errorf("%w: there is no level %d", ErrHandshake, h.level)
	case h.next == 0:
		return h, fmt.Errorf("%w: sequence numbers begin at 1", ErrHandshake)
	case h.epoch == 0 && h.next != 1:
		return h, fmt.Errorf("%w: a new session begins with sequence number 1, not %d", ErrHandshake, h.next)
	}
	return h, nil
}

// checkClientID says why id cannot be a client's name, or nil.
func checkClientID(id string) error {
	if len(id) == 0 || len(id) > mostClientID {
		return fmt.Errorf("a client's name has 1 to %d bytes, not %d", mostClientID, len(id))
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return fmt.Errorf("a client's name is printable ASCII without spaces; byte %d is 0x%02x", i, id[i])
		}
	}
	return nil
}

// welcome is how a server answers a hello that it accepts.
type welcome struct {
	level  Level
	epoch  uint64
	last   uint64 // the highest durable sequence number of the epoch
	window uint32 // how many records may be unacknowledged
	most   uint32 // bytes of one record's data
	idle   time.Duration
	expiry time.Duration
}

func (w welcome) append(dst []byte) []byte {
	dst = append(dst, magic...)
	dst = append(dst, byte(w.level))
	dst = binary.BigEndian.AppendUint64(dst, w.epoch)
	dst = binary.BigEndian.AppendUint64(dst, w.last)
	dst = binary.BigEndian.AppendUint32(dst, w.window)
	dst = binary.BigEndian.AppendUint32(dst, w.most)
	dst = binary.BigEndian.AppendUint32(dst, wholeSeconds(w.idle))
	return binary.BigEndian.AppendUint32(dst, wholeSeconds(w.expiry))
}

// wholeSeconds rounds down, so that who keeps to it is in time; 0 is no limit.
func wholeSeconds(d time.Duration) uint32 {
	return uint32(min(max(d/time.Second, 0), 1<<32-1))
}

func parseWelcome(in []byte) (w welcome, err error) {
	if len(in) != welcomeSize || string(in[:4]) != magic {
		return w, fmt.Errorf("%w: the server's answer is no welcome", ErrHandshake)
	}
	w.level = Level(in[4])
	w.epoch, w.last = binary.BigEndian.Uint64(in[5:]), binary.BigEndian.Uint64(in[13:])
	w.window, w.most = binary.BigEndian.Uint32(in[21:]), binary.BigEndian.Uint32(in[25:])
	w.idle = time.Duration(binary.BigEndian.Uint32(in[29:])) * time.Second
	w.expiry = time.Duration(binary.BigEndian.Uint32(in[33:])) * time.Second
	if w.level == Default || w.level > Quorum || w.epoch == 0 || w.window == 0 || w.most == 0 {
		return w, fmt.Errorf("%w: the server's welcome has a zero where none can be", ErrHandshake)
	}
	return w, nil
}
