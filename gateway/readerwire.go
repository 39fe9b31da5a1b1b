package gateway

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/hone-go/hone/gateway/internal/delivery"
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
	maxReadWindow     = 2 << 20 // so much a server holds for a reader that does not read
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
	topic          string    // prefix of topics; empty: none
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
	topicField
)

func (p *Position) fields(m *message) {
	m.raw(p.Log[:])
	word(m, 8, &p.Number)
	word(m, 4, &p.Sum)
}

func (o *opening) fields(m *message) {
	position := func(p **Position) func(*message) {
		return func(m *message) {
			if m.reads {
				*p = new(Position)
			}
			(*p).fields(m)
		}
	}
	m.begins(readMagic)
	word(m, 1, &o.start)
	m.flags(&o.anew, &o.passing, &o.eager, &o.yields)
	word(m, 8, &o.at)
	word(m, 2, &o.share, &o.shares)
	word(m, 4, &o.window)
	m.credentials(&o.name, &o.token)
	m.optional(
		field{clientField, o.client != "", func(m *message) { m.name(&o.client) }},
		field{prefixField, o.prefix != "", func(m *message) { m.name(&o.prefix) }},
		field{ownField, o.own != nil, position(&o.own)},
		field{resumeField, o.resume != nil, position(&o.resume)},
		field{readerInstanceField, o.instance != 0, func(m *message) { word(m, 8, &o.instance) }},
		field{topicField, o.topic != "", func(m *message) { m.text(&o.topic) }},
	)
}

func (o opening) append(dst []byte) []byte { return encode(dst, o.fields) }

// parseOpening reads an open. Fields that it does not know are skipped.
func parseOpening(in []byte) (o opening, err error) {
	malformed := func(what string) (opening, error) { return o, fmt.Errorf("%w: %s", ErrHandshake, what) }
	err = decode(in, o.fields)
	switch {
	case err != nil:
		return o, err
	case o.start > FromNumber:
		return malformed(fmt.Sprintf("there is no start %d", o.start))
	case o.shares == 0 || o.share >= o.shares || o.shares > maxShares:
		return malformed(fmt.Sprintf("there is no share %d of %d; the limit is %d", o.share, o.shares, maxShares))
	case o.passing && o.start == Stored && o.own == nil:
		return malformed("nothing is stored for a passing reader")
	case len(o.topic) > mostTopic:
		return malformed(fmt.Sprintf("a topic has at most %d bytes", mostTopic))
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

func (o *readWelcome) fields(m *message) {
	m.begins(readMagic)
	m.raw(o.log[:])
	word(m, 8, &o.number, &o.generation)
	word(m, 4, &o.window)
	word(m, 2, &o.share, &o.shares)
	m.seconds(&o.idle)
	m.optional()
}

func (o readWelcome) append(dst []byte) []byte { return encode(dst, o.fields) }

func parseReadWelcome(in []byte) (o readWelcome, err error) {
	err = decode(in, o.fields)
	return o, err
}

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

func (g *Gap) fields(m *message) {
	word(m, 1, &g.Reason)
	word(m, 8, &g.From, &g.To)
}

func (g Gap) append(dst []byte) []byte { return encode(append(dst, delivery.Gap), g.fields) }

// acknowledgement is the content of a reader's Submit.
type acknowledgement struct {
	generation uint64
	number     uint64 // every record up to it is done
	taken      uint64 // bytes of the contents of all Delivers that the program has taken
}

func (a *acknowledgement) fields(m *message) {
	word(m, 8, &a.generation, &a.number, &a.taken)
}

func (a acknowledgement) append(dst []byte) []byte { return encode(dst, a.fields) }
