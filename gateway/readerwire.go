package gateway

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/hone-go/hone/gateway/internal/number"
)

// Position is a place in a log: behind the record of that number. A program that stores it beside its
// own data gives it back as Reader.Own.
type Position struct {
	Log    [16]byte // of the log that the number is in
	Number uint64   // of a record; see Message.Number
	Sum    uint32   // of the record's envelope; 0: unknown; 1: the log did not have it, a gap ends there
}

// nothingThere is the Sum of a position behind a gap: a log that has an envelope there is another one, such as a
// backup that has grown.
const nothingThere = 1

// String returns the position in one word, which UnmarshalText reads.
func (p Position) String() string {
	return fmt.Sprintf("%x/%s/%08x", p.Log, number.Format(p.Number), p.Sum)
}

// MarshalText returns String as bytes.
func (p Position) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads what String returns.
func (p *Position) UnmarshalText(text []byte) error {
	parts := strings.Split(string(text), "/")
	if len(parts) == 3 {
		id, err := hex.DecodeString(parts[0])
		number, err2 := number.Parse(parts[1])
		sum, err3 := strconv.ParseUint(parts[2], 16, 32)
		if len(id) == len(p.Log) && errors.Join(err, err2, err3) == nil {
			*p = Position{[16]byte(id), number, uint32(sum)}
			return nil
		}
	}
	return fmt.Errorf("gateway: %q is not a position", text)
}

// Records are numbered by their envelope's position in the log and their index in it.
const (
	indexBits = number.IndexBits
	lastIndex = 1<<indexBits - 1
	maxNumber = math.MaxUint64
)

// before returns the number behind which the records of the envelope at pos begin.
func before(pos uint64) uint64 { return pos<<indexBits - 1 }

// Start is where a reader begins.
type Start uint8

// The starts. Their values are part of the wire protocol.
const (
	Stored     Start = 0 // behind what was acknowledged; a name without that is refused
	FromFirst  Start = 1 // the log's first record
	FromNext   Start = 2 // the next record to be stored
	FromTime   Start = 3 // the first record of a log time or later, in the newest stretch
	FromNumber Start = 4 // the record of a number, or the one after it
)

// Limits of readers.
const (
	defaultReadWindow = 1 << 20
	minReadWindow     = 128 << 10
	maxReadWindow     = 2 << 20  // so much a server holds for a reader that does not read
	frameTarget       = 64 << 10 // content of a Deliver, but for a longer record
	maxShares         = 1024
)

// readMagic begins an open and its answer.
const readMagic = "hgr1"

// opening is the first message of a reader.
type opening struct {
	start         Start
	anew          bool   // begin at start, whatever is stored
	passing       bool   // nothing is stored for this reader
	yields        bool   // it does not take over from a connection that is open
	eager         bool   // a passing reader is told at once when it has everything
	at            uint64 // time in milliseconds, or number
	share, shares uint16
	window        uint32 // bytes; 0: the default
	name, token   string

	client, prefix string    // filter; empty: none
	own            *Position // the truth, whatever is stored
	instance       uint64    // of the program; 0: unknown
	resume         *Position // that this instance has reached
}

// The fields of an open.
const (
	clientField = 1 + iota
	prefixField
	ownField
	resumeField
	readerInstanceField
)

const (
	openSize     = 4 + 1 + 1 + 8 + 2 + 2 + 4 + 1 + 2 // without name and token
	openedSize   = 4 + 16 + 8 + 8 + 4 + 2 + 2 + 4
	positionSize = 16 + 8 + 4
	ackSize      = 8 + 8 + 8
)

// append appends a position; nil: nothing.
func (p *Position) append(dst []byte) []byte {
	if p == nil {
		return dst
	}
	dst = binary.BigEndian.AppendUint64(append(dst, p.Log[:]...), p.Number)
	return binary.BigEndian.AppendUint32(dst, p.Sum)
}

func (o *opening) append(dst []byte) []byte {
	flags := byte(0)
	for bit, set := range []bool{o.anew, o.passing, o.eager, o.yields} {
		if set {
			flags |= 1 << bit
		}
	}
	dst = append(append(dst, readMagic...), byte(o.start), flags)
	dst = binary.BigEndian.AppendUint64(dst, o.at)
	dst = binary.BigEndian.AppendUint16(dst, o.share)
	dst = binary.BigEndian.AppendUint16(dst, o.shares)
	dst = binary.BigEndian.AppendUint32(dst, o.window)
	dst = appendCredentials(dst, o.name, o.token)
	dst = appendField(dst, clientField, []byte(o.client))
	dst = appendField(dst, prefixField, []byte(o.prefix))
	dst = appendField(dst, ownField, o.own.append(nil))
	dst = appendField(dst, resumeField, o.resume.append(nil))
	if o.instance != 0 {
		dst = appendField(dst, readerInstanceField, binary.BigEndian.AppendUint64(nil, o.instance))
	}
	return dst
}

// parseOpening reads an open. Fields that it does not know are skipped.
func parseOpening(in []byte) (o opening, err error) {
	malformed := func(what string) (opening, error) { return o, fmt.Errorf("%w: %s", ErrHandshake, what) }
	if len(in) < openSize || string(in[:4]) != readMagic {
		return malformed("it does not begin with " + readMagic)
	}
	o.start, o.anew, o.passing, o.eager, o.yields = Start(in[4]), in[5]&1 != 0, in[5]&2 != 0, in[5]&4 != 0, in[5]&8 != 0
	flags := in[5]
	o.at = binary.BigEndian.Uint64(in[6:])
	o.share, o.shares = binary.BigEndian.Uint16(in[14:]), binary.BigEndian.Uint16(in[16:])
	o.window = binary.BigEndian.Uint32(in[18:])
	if o.name, o.token, in, err = parseCredentials(in[22:]); err != nil {
		return o, err
	}
	valid := true
	text := func(value []byte) string {
		valid = valid && checkClientID(string(value)) == nil
		return string(value)
	}
	position := func(value []byte) *Position {
		if valid = valid && len(value) == positionSize; !valid {
			return nil
		}
		return &Position{[16]byte(value), binary.BigEndian.Uint64(value[16:]), binary.BigEndian.Uint32(value[24:])}
	}
	whole := fields(in, func(kind byte, value []byte) {
		switch kind {
		case clientField:
			o.client = text(value)
		case prefixField:
			o.prefix = text(value)
		case ownField:
			o.own = position(value)
		case resumeField:
			o.resume = position(value)
		case readerInstanceField:
			if valid = valid && len(value) == 8; valid {
				o.instance = binary.BigEndian.Uint64(value)
			}
		}
	})
	switch {
	case !whole || !valid:
		return malformed("a field is malformed")
	case o.start > FromNumber || flags > 15:
		return malformed(fmt.Sprintf("there is no start %d with flags %d", o.start, flags))
	case o.shares == 0 || o.share >= o.shares || o.shares > maxShares:
		return malformed(fmt.Sprintf("there is no share %d of %d; the limit is %d", o.share, o.shares, maxShares))
	case o.passing && o.start == Stored && o.own == nil:
		return malformed("nothing is stored for a passing reader")
	case o.eager && !o.passing: // its position would make the log grow, which it would then be told
		return malformed("only a passing reader is told at once")
	}
	return o, nil
}

// readWelcome is the server's answer to an open.
type readWelcome struct {
	log           [16]byte
	number        uint64 // what is delivered comes behind it
	generation    uint64 // 0: of a passing reader
	window        uint32
	share, shares uint16
	idle          time.Duration
}

func (o readWelcome) append(dst []byte) []byte {
	dst = append(append(dst, readMagic...), o.log[:]...)
	dst = binary.BigEndian.AppendUint64(dst, o.number)
	dst = binary.BigEndian.AppendUint64(dst, o.generation)
	dst = binary.BigEndian.AppendUint32(dst, o.window)
	dst = binary.BigEndian.AppendUint16(dst, o.share)
	dst = binary.BigEndian.AppendUint16(dst, o.shares)
	return binary.BigEndian.AppendUint32(dst, wholeSeconds(o.idle))
}

func parseReadWelcome(in []byte) (o readWelcome, err error) {
	if len(in) < openedSize || string(in[:4]) != readMagic {
		return o, fmt.Errorf("%w: the server's answer is not one to an open", ErrHandshake)
	}
	o.log = [16]byte(in[4:])
	o.number, o.generation = binary.BigEndian.Uint64(in[20:]), binary.BigEndian.Uint64(in[28:])
	o.window = binary.BigEndian.Uint32(in[36:])
	o.share, o.shares = binary.BigEndian.Uint16(in[40:]), binary.BigEndian.Uint16(in[42:])
	o.idle = time.Duration(binary.BigEndian.Uint32(in[44:])) * time.Second
	return o, nil
}

// The kinds of a Deliver, its first byte.
const (
	deliverRecords = 1 // then the sum of the newest envelope and the records
	deliverGap     = 2 // then the reason and the first and the last missing number
)

// deliverHead is the size of a Deliver of records without its records, and recordHead what precedes
// a record's body.
const (
	deliverHead = 1 + 4
	recordHead  = 8 + 4
	gapSize     = 1 + 1 + 8 + 8
)

// Reason is why records are missing.
type Reason uint8

// The reasons. Their values are part of the wire protocol.
const (
	Trimmed Reason = 1 // they were deleted before this reader had read them
	Damaged Reason = 2 // the log has lost them
)

// String returns the reason in a word.
func (r Reason) String() string {
	switch r {
	case Trimmed:
		return "trimmed"
	case Damaged:
		return "damaged"
	}
	return fmt.Sprintf("reason %d", uint8(r))
}

// Gap are records that a reader does not get.
type Gap struct {
	From, To uint64 // the first number and the last one
	Reason   Reason
}

// String names the positions in the log.
func (g Gap) String() string {
	return fmt.Sprintf("the records from position %d to %d are missing: %v", g.From>>indexBits, g.To>>indexBits, g.Reason)
}

func (g *Gap) append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(append(dst, deliverGap, byte(g.Reason)), g.From)
	return binary.BigEndian.AppendUint64(dst, g.To)
}

func appendRecord(dst []byte, number uint64, body []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, number)
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(body))), body...)
}

// acknowledgement is the content of a reader's Submit.
type acknowledgement struct {
	generation uint64
	number     uint64 // every record up to it is done
	taken      uint64 // bytes of the contents of all Delivers that the program has taken
}

func (a acknowledgement) append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, a.generation)
	dst = binary.BigEndian.AppendUint64(dst, a.number)
	return binary.BigEndian.AppendUint64(dst, a.taken)
}

func parseAcknowledgement(in []byte) (a acknowledgement, err error) {
	if len(in) != ackSize {
		return a, fmt.Errorf("%w: an acknowledgement has %d bytes, not %d", ErrHandshake, ackSize, len(in))
	}
	return acknowledgement{binary.BigEndian.Uint64(in), binary.BigEndian.Uint64(in[8:]), binary.BigEndian.Uint64(in[16:])}, nil
}
