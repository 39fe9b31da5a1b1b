package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/gateway/internal/mqtt"
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

// The errors of posts, besides those of sessions.
var (
	errStale    = errors.New("gateway: the producer has a newer epoch")
	errCrowded  = errors.New("gateway: too much waits for the log")
	errNoPlace  = errors.New("gateway: too many producers")
	errInFlight = errors.New("gateway: too many messages that the client has not released")
	errUnknown  = errors.New("gateway: no message has this packet id")
	errTooLarge = errors.New("gateway: the post does not fit into one envelope")
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

// refusals are the errors for which a door refuses something, and what each says then: the result of frames, the status of
// HTTP, the reason code of MQTT.
var refusals = [...]verdict{
	{ErrUnauthorised, wire.Unauthorised, http.StatusUnauthorized, mqtt.NotAuthorised},
	{ErrHandshake, wire.Malformed, http.StatusBadRequest, mqtt.NotAccepted},
	{errTooSlow, wire.TooSlow, http.StatusServiceUnavailable, mqtt.Unavailable},
	{ErrFenced, resultFenced, http.StatusServiceUnavailable, mqtt.TakenOver},
	{ErrExpired, resultExpired, http.StatusServiceUnavailable, mqtt.AdministratorsOrder},
	{ErrGap, resultGap, http.StatusConflict, mqtt.NotAccepted},
	{ErrMoved, resultMoved, http.StatusServiceUnavailable, mqtt.TakenOver},
	{ErrTooMany, resultTooMany, http.StatusServiceUnavailable, mqtt.NoRoom},

	// These concern frames only.
	{err: ErrLevel, result: resultLevel},
	{err: ErrRegressed, result: resultRegressed},
	{err: ErrNoReader, result: resultNoReader},
	{err: ErrShares, result: resultShares},
	{err: ErrAhead, result: resultAhead},
	{err: errChanged, result: resultChanged},

	// These do not: with frames they are no answers.
	{errStale, wire.Failed, http.StatusForbidden, mqtt.NotAuthorised},
	{errTooLarge, wire.Failed, http.StatusRequestEntityTooLarge, mqtt.TooLarge},
	{errCrowded, wire.Failed, http.StatusTooManyRequests, mqtt.NoRoom},
	{errNoPlace, wire.Failed, http.StatusServiceUnavailable, mqtt.NoRoom},
	{errInFlight, wire.Failed, http.StatusServiceUnavailable, mqtt.TooManyInFlight},
	{errUnknown, wire.Failed, http.StatusServiceUnavailable, mqtt.UnknownID},
	{ErrServerClosed, wire.Failed, http.StatusServiceUnavailable, mqtt.ShuttingDown},
}

// verdict is an error in the words of all doors.
type verdict struct {
	err    error
	result wire.Result
	status int
	code   mqtt.Code
}

// verdictOn returns what the doors say for err.
func verdictOn(err error) verdict {
	for _, r := range refusals {
		if errors.Is(err, r.err) {
			return r
		}
	}
	return verdict{err, wire.Failed, http.StatusServiceUnavailable, mqtt.Unspecified}
}

// refusal returns what the server sends for err: its code and its text.
func refusal(err error) *framed.Refusal {
	if r := verdictOn(err); r.result != wire.Failed {
		return &framed.Refusal{Result: r.result, Content: []byte(err.Error())}
	}
	return &framed.Refusal{Result: wire.Failed}
}

// refused returns the error for a result other than OK. For a code that is not the
// gateway's own, the result is the error.
func refused(code wire.Result, words []byte) error {
	for _, r := range refusals {
		if r.result == code && code != wire.Failed {
			if said := strings.TrimPrefix(string(words), r.err.Error()); said != "" && said != string(words) {
				return fmt.Errorf("%w%s", r.err, said)
			}
			return r.err
		}
	}
	if back := wire.ComeBack(words); back > 0 {
		return comeBack{code, back}
	}
	return code
}

// comeBack is a refusal that asks the client to come back after some time.
type comeBack struct {
	wire.Result
	after time.Duration
}

// Unwrap returns the result as an error.
func (e comeBack) Unwrap() error { return e.Result }

// magic begins a hello and a welcome. Its last byte is the version of the protocol.
const magic = "hgw2"

// Limits of a handshake, and the size of a welcome with its checksum.
const (
	maxClientID = 64
	maxToken    = 512
	welcomeSize = 4 + 1 + 8 + 8 + 4 + 4 + 4 + 4 + 3 + 4
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

func (h *hello) fields(m *message) {
	m.begins(magic)
	word(m, 1, &h.level)
	word(m, 8, &h.epoch, &h.next)
	m.credentials(&h.client, &h.token)
	m.optional(
		field{instanceField, h.instance != 0, func(m *message) { word(m, 8, &h.instance) }},
		field{welcomedField, h.welcomed, func(*message) { h.welcomed = true }},
	)
}

func (h hello) append(dst []byte) []byte { return encode(dst, h.fields) }

// parseHello accepts the bytes that append makes from a valid hello, and other fields as well.
func parseHello(in []byte) (h hello, err error) {
	if !strings.HasPrefix(string(in), magic) {
		return h, fmt.Errorf("%w: it begins with %q; this server speaks %q, and %q with readers", ErrHandshake, in[:min(len(in), len(magic))], magic, readMagic)
	}
	err = decode(in, h.fields)
	switch {
	case err != nil:
		return h, err
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

func (w *welcome) fields(m *message) {
	m.begins(magic)
	word(m, 1, &w.level)
	word(m, 8, &w.epoch, &w.last)
	word(m, 4, &w.window, &w.most)
	m.seconds(&w.idle)
	m.seconds(&w.expiry)
	m.optional(field{sumField, w.summed, func(m *message) {
		w.summed = true
		word(m, 4, &w.sum)
	}})
}

func (w welcome) append(dst []byte) []byte { return encode(dst, w.fields) }

func parseWelcome(in []byte) (w welcome, err error) {
	if err := decode(in, w.fields); err != nil {
		return w, fmt.Errorf("the server's welcome: %w", err)
	}
	if w.level == Default || w.level > Quorum || w.epoch == 0 || w.window == 0 || w.most == 0 {
		return w, fmt.Errorf("%w: a field of the server's welcome is out of range", ErrHandshake)
	}
	return w, nil
}

// ErrServerClosed is returned by Serve after Shutdown or Close.
var ErrServerClosed = framed.ErrServerClosed

// errRefused is wrapped by the errors of orders that change nothing.
var errRefused = errors.New("gateway: refused")
