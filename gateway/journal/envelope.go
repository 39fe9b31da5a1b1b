package journal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"iter"
	"unicode/utf8"
)

// Sizes of the format, which docs/envelope.md describes byte by byte.
const (
	// MaxEnvelope is the size limit of an envelope. With JetStream's headers it fits into
	// the largest payload that a NATS server accepts by default, 1 MiB.
	MaxEnvelope = 1<<20 - 4096
	// maxClient is the maximum length of a client id, in bytes.
	maxClient = 255

	magic        = "HNEV"
	headerSize   = 24
	trailerSize  = 4
	sessionSize  = 3 * 8                   // epoch, sequence and time of a record or a state
	recordSize   = 1 + sessionSize + 4     // in format 1, without client and data
	headSize     = 1 + 4                   // kind and length of an entry in format 2
	stateSize    = sessionSize + 4 + 1 + 8 // of a body in format 2, after the client
	positionSize = 2 + 2 + 5*8 + 1         // of a body, after the name
	newest       = 2                       // format that Encoder writes by default
	maySkip      = 0x80                    // bit of an entry's kind: readers that do not know it skip it
)

// Kind is the type of an envelope's entries, and in format 2 of one entry.
type Kind uint8

// The kinds. Envelopes of format 1 are of kind Records or Checkpoint, those of format 2 Mixed.
const (
	Mixed      Kind = 0 // each entry has its own kind
	Records    Kind = 1 // messages of clients
	Checkpoint Kind = 2 // part of the state of all clients

	forgettingKind Kind = 3
	tombstoneKind  Kind = 4
	clockKind      Kind = 5
	trimKind       Kind = 6 | maySkip
	positionKind   Kind = 7 | maySkip
	identityKind   Kind = 8 | maySkip
)

// String returns the kind's name as in JSON.
func (k Kind) String() string {
	switch k {
	case Mixed:
		return "mixed"
	case Records:
		return "records"
	case Checkpoint:
		return "checkpoint"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Part is the place of an envelope in its checkpoint, which may have many envelopes.
type Part uint8

// The parts. A checkpoint of one envelope is First | Last.
const (
	First Part = 1 << iota // the checkpoint begins here
	Last                   // the checkpoint is complete with this envelope
)

// Record is one message of one client.
type Record struct {
	Client     string // 1 to maxClient bytes of UTF-8
	Epoch      uint64
	Seq        uint64
	Time       int64       // Unix time in milliseconds; in format 2 log time
	Attributes []Attribute // at most 255; format 1 has none
	Data       []byte
}

// Attribute is what a record says about its data.
type Attribute struct {
	Kind  AttributeKind `json:"kind"` // readers ignore kinds that they do not know
	Value []byte        `json:"value"`
}

// AttributeKind is what an attribute's value is.
type AttributeKind uint8

// The kinds of attributes. The value of a Property is one byte with the length of its name, the
// name, and its value.
const (
	Topic AttributeKind = 1 + iota
	ContentType
	Key
	Property
)

// State is what the log contains for one client, up to the State's envelope.
type State struct {
	Client string // 1 to maxClient bytes of UTF-8
	Epoch  uint64
	Last   uint64 // sequence number of the newest record in the log
	Claim  bool   // a server has taken the client; false: part of a checkpoint
	Expiry int64  // format 1: Unix time in milliseconds after which the client may be forgotten; of a claim, when it was made

	// Format 2 has these fields instead of Expiry.
	Connected bool   // when the state was written
	Seen      int64  // log time at which the client was last connected; its age counts from Clock.Time of the same envelope
	Summed    bool   // Sum is known
	Sum       uint32 // running CRC-32C of the session's records, each its sequence number (8 bytes) and data
	Instance  uint64 // of the program that has the session; 0: unknown
}

// Forgetting says that the server has forgotten a client's session: what the log contains of
// this epoch and of older ones counts no more.
type Forgetting struct {
	Client string
	Epoch  uint64
}

// Clock is the log's clock when its envelope was encoded.
type Clock struct {
	Time    int64  // log time, in Unix milliseconds
	Highest uint64 // highest epoch that any client ever got
	Skipped int64  // milliseconds that log time moved, since the Clock before, beyond the running time of the server
}

// Encoder builds envelopes in one buffer, without allocating once the buffer has grown.
// The zero value works.
type Encoder struct {
	// Format is the format of the envelopes, 1 or 2. Zero: 2. Format 1 stores records without
	// attributes, and the states of format 1, and nothing else.
	Format uint8

	buf   []byte
	kind  Kind
	begun bool
	count uint32
}

// Begin starts an envelope of records and discards the previous one. In format 2, entries of
// all kinds may be added. base is the position of the First part of the newest complete
// checkpoint, or 0: recovery reads from there.
func (e *Encoder) Begin(base uint64) { e.begin(Records, 0, base) }

// BeginCheckpoint starts an envelope of client states, in format 2 of all kinds of entries.
// base is as in Begin.
func (e *Encoder) BeginCheckpoint(part Part, base uint64) { e.begin(Checkpoint, part, base) }

func (e *Encoder) begin(kind Kind, part Part, base uint64) {
	if e.Format == 0 {
		e.Format = newest
	}
	if e.Format == 2 {
		kind = Mixed
	}
	e.kind, e.count, e.begun = kind, 0, true
	e.buf = append(e.buf[:0], magic...)
	e.buf = append(e.buf, e.Format, byte(kind), byte(part), 0)
	e.buf = append(e.buf, 0, 0, 0, 0, 0, 0, 0, 0) // count and body length: Bytes fills them
	e.buf = binary.BigEndian.AppendUint64(e.buf, base)
}

// Count returns how many entries the envelope has.
func (e *Encoder) Count() int { return int(e.count) }

// Size returns the size of the envelope in bytes.
func (e *Encoder) Size() int { return len(e.buf) + trailerSize }

// Record adds a message. It returns ErrTooLarge if the envelope is full, and ErrMalformed if the
// client id or the attributes are invalid; an error leaves the envelope unchanged.
func (e *Encoder) Record(r *Record) error {
	for i := range r.Attributes {
		if e.kind == Records || len(r.Attributes) > 255 || len(r.Attributes[i].Value) > 0xffff {
			return fmt.Errorf("%w: %d attributes; format 2 stores up to 255, of up to 65535 bytes each", ErrMalformed, len(r.Attributes))
		}
	}
	start := e.start(Records)
	e.buf = appendNamed(e.buf, r.Client, r.Epoch, r.Seq, uint64(r.Time))
	if e.kind == Records {
		e.buf = binary.BigEndian.AppendUint32(e.buf, uint32(len(r.Data)))
	} else {
		e.buf = append(e.buf, byte(len(r.Attributes)))
		for _, a := range r.Attributes {
			e.buf = binary.BigEndian.AppendUint16(append(e.buf, byte(a.Kind)), uint16(len(a.Value)))
			e.buf = append(e.buf, a.Value...)
		}
	}
	e.buf = append(e.buf, r.Data...)
	return e.end(start, r.Client)
}

// State adds the state of a client. It returns the same errors as Record.
func (e *Encoder) State(s *State) error {
	start, at, sum := e.start(Checkpoint), s.Seen, uint32(0)
	if e.kind != Mixed {
		if at = s.Expiry; s.Claim {
			at = -at
		}
	}
	e.buf = appendNamed(e.buf, s.Client, s.Epoch, s.Last, uint64(at))
	if e.kind == Mixed {
		if s.Summed {
			sum = s.Sum
		}
		e.buf = append(binary.BigEndian.AppendUint32(e.buf, sum), flags(s.Claim, s.Summed, s.Connected))
		e.buf = binary.BigEndian.AppendUint64(e.buf, s.Instance)
	}
	return e.end(start, s.Client)
}

// Forgetting adds that a session was forgotten. It returns the same errors as Record, and panics
// in format 1, as Tombstone, Trim and Clock do.
func (e *Encoder) Forgetting(f *Forgetting) error {
	start := e.start(forgettingKind)
	e.buf = appendNamed(e.buf, f.Client, f.Epoch)
	return e.end(start, f.Client)
}

// Tombstone adds that an operator has accepted the loss of the envelope at a position.
func (e *Encoder) Tombstone(pos uint64) error { return e.words(tombstoneKind, pos) }

// Trim adds that the envelopes before a position may be deleted from now on.
func (e *Encoder) Trim(to uint64) error { return e.words(trimKind, to) }

// Clock adds the log's clock.
func (e *Encoder) Clock(c Clock) error {
	return e.words(clockKind, uint64(c.Time), c.Highest, uint64(c.Skipped))
}

// words adds an entry of a few integers.
func (e *Encoder) words(kind Kind, words ...uint64) error {
	start := e.start(kind)
	e.buf = appendWords(e.buf, words...)
	return e.end(start, "-")
}

// start begins an entry and returns its offset.
func (e *Encoder) start(kind Kind) int {
	if !e.begun || e.kind != Mixed && e.kind != kind {
		panic("journal: Encoder: an entry of the wrong kind, or without Begin")
	}
	start := len(e.buf)
	if e.kind == Mixed {
		e.buf = append(e.buf, byte(kind), 0, 0, 0, 0) // length: end fills it
	}
	return start
}

// end completes the entry that begins at an offset, or removes it if it is invalid or does not fit.
func (e *Encoder) end(start int, client string) error {
	switch {
	case !validClient(client):
		e.buf = e.buf[:start]
		return fmt.Errorf("%w: a client id must be 1 to %d bytes of UTF-8; this one has %d bytes", ErrMalformed, maxClient, len(client))
	case e.Size() > MaxEnvelope:
		e.buf = e.buf[:start]
		return ErrTooLarge
	case e.kind == Mixed:
		binary.BigEndian.PutUint32(e.buf[start+1:], uint32(len(e.buf)-start-headSize))
	}
	e.count++
	return nil
}

// appendNamed appends a client id or a name, and integers about it.
func appendNamed(b []byte, name string, words ...uint64) []byte {
	return appendWords(append(append(b, byte(len(name))), name...), words...)
}

func appendWords(b []byte, words ...uint64) []byte {
	for _, w := range words {
		b = binary.BigEndian.AppendUint64(b, w)
	}
	return b
}

// flags returns a byte of bits, the lowest first.
func flags(bits ...bool) (b byte) {
	for i, set := range bits {
		if set {
			b |= 1 << i
		}
	}
	return b
}

// Bytes completes the envelope and returns it. The bytes are valid until the next Begin.
func (e *Encoder) Bytes() []byte {
	if !e.begun {
		panic("journal: Encoder: Bytes without Begin")
	}
	binary.BigEndian.PutUint32(e.buf[8:], e.count)
	binary.BigEndian.PutUint32(e.buf[12:], uint32(len(e.buf)-headerSize))
	sum := checksum(e.buf)
	e.begun = false // the envelope is complete: no further entries
	e.buf = binary.BigEndian.AppendUint32(e.buf, sum)
	return e.buf
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

func validClient(client string) bool {
	return len(client) >= 1 && len(client) <= maxClient && utf8.ValidString(client)
}

// Envelope is a decoded envelope. It refers to the bytes from which it was decoded.
type Envelope struct {
	Format uint8
	Kind   Kind
	Part   Part // 0 for records of format 1
	Base   uint64
	Count  int
	body   []byte
	sum    uint32
}

// header checks only an envelope's header and length.
func header(b []byte) (Envelope, error) {
	malformed := func(format string, args ...any) (Envelope, error) {
		return Envelope{}, fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
	}
	if len(b) < headerSize+trailerSize {
		return malformed("%d bytes are too few", len(b))
	}
	e := Trust(b)
	length := binary.BigEndian.Uint32(b[12:])
	switch {
	case string(b[:4]) != magic:
		return malformed("it begins with %q", b[:4])
	case e.Format == 0 || e.Format > newest:
		return malformed("version %d; this program reads versions 1 and %d", e.Format, newest)
	case e.Format == 2 && e.Kind != Mixed || e.Format == 1 && e.Kind != Records && e.Kind != Checkpoint:
		return malformed("%v", e.Kind)
	case e.Part&^(First|Last) != 0 || e.Part != 0 && e.Kind == Records || b[7] != 0:
		return malformed("flags %#x and reserved byte %#x", b[6], b[7])
	case len(b) > MaxEnvelope:
		return malformed("%d bytes, limit %d", len(b), MaxEnvelope)
	case int64(length) != int64(len(e.body)):
		return malformed("the header claims %d bytes of entries, there are %d", length, len(e.body))
	}
	return e, nil
}

// Decode checks an envelope completely: header, checksum and every entry. The methods of the
// envelope that it returns cannot fail.
func Decode(b []byte) (Envelope, error) {
	e, err := header(b)
	if err != nil {
		return e, err
	}
	end := len(b) - trailerSize
	if got, want := checksum(b[:end]), binary.BigEndian.Uint32(b[end:]); got != want {
		return Envelope{}, fmt.Errorf("%w: checksum %08x, computed %08x", ErrMalformed, want, got)
	}
	rest := e.body
	for i := range e.Count {
		kind, body, after := e.cut(rest)
		if body == nil || e.Format == 1 && clientSize(body) == 0 || e.Format > 1 && !wellFormed(kind, body) {
			return Envelope{}, fmt.Errorf("%w: entry %d of %d", ErrMalformed, i+1, e.Count)
		}
		if rest = after; kind > clockKind && kind&maySkip == 0 {
			return Envelope{}, fmt.Errorf("%w: entry %d of %d has kind %d: written by a newer version of this program", ErrMalformed, i+1, e.Count, kind)
		}
	}
	if len(rest) != 0 {
		return Envelope{}, fmt.Errorf("%w: %d bytes after the last entry", ErrMalformed, len(rest))
	}
	return e, nil
}

// Trust returns an envelope that was checked before, without checking it again.
func Trust(b []byte) Envelope {
	end := len(b) - trailerSize
	return Envelope{
		Format: b[4], Kind: Kind(b[5]), Part: Part(b[6]), Base: binary.BigEndian.Uint64(b[16:]),
		Count: int(binary.BigEndian.Uint32(b[8:])), body: b[headerSize:end], sum: binary.BigEndian.Uint32(b[end:]),
	}
}

// cut returns the kind and the body of the entry at the front of b, and the bytes after it; the
// body is nil if the entry is longer than b. Only Decode checks more than that.
func (e Envelope) cut(b []byte) (kind Kind, body, rest []byte) {
	begin, end := 0, int64(headSize)
	switch {
	case len(b) < headSize:
		return 0, nil, nil
	case e.Format > 1:
		kind, begin = Kind(b[0]), headSize
		end += int64(binary.BigEndian.Uint32(b[1:]))
	default:
		kind, end = e.Kind, 1+int64(b[0])+sessionSize
		if kind == Records {
			if end += 4; end <= int64(len(b)) {
				end += int64(binary.BigEndian.Uint32(b[end-4:]))
			}
		}
	}
	if end > int64(len(b)) {
		return 0, nil, nil
	}
	return kind, b[begin:end:end], b[end:]
}

// clientSize returns the length of the valid client id at the front of b, or 0.
func clientSize(b []byte) int {
	if len(b) == 0 || len(b) < 1+int(b[0]) || !utf8.Valid(b[1:1+int(b[0])]) {
		return 0
	}
	return int(b[0])
}

// wellFormed checks an entry's body in format 2. Any body is fine for a kind that is unknown.
func wellFormed(kind Kind, b []byte) bool {
	n := clientSize(b)
	rest := len(b) - 1 - n
	switch kind {
	case 0:
		return false
	case Records:
		return n > 0 && rest > sessionSize && attributesSize(b[1+n+sessionSize:]) > 0
	case Checkpoint:
		if n == 0 || rest != stateSize {
			return false
		}
		flags := b[len(b)-9]
		return flags&^7 == 0 && (flags&2 != 0 || binary.BigEndian.Uint32(b[len(b)-13:]) == 0)
	case forgettingKind:
		return n > 0 && rest == 8
	case tombstoneKind, trimKind:
		return len(b) == 8
	case clockKind:
		return len(b) == 24
	case positionKind:
		return n > 0 && rest == positionSize
	case identityKind:
		return len(b) == 16
	}
	return true
}

// attributesSize returns the size of a record's attributes and their number, or -1.
func attributesSize(b []byte) int {
	at := 1
	for range b[0] {
		if len(b) < at+3 || len(b) < at+3+int(binary.BigEndian.Uint16(b[at+1:])) {
			return -1
		}
		at += 3 + int(binary.BigEndian.Uint16(b[at+1:]))
	}
	return at
}

// entries yields the bodies of all entries of a kind.
func (e Envelope) entries(wanted Kind, yield func(body []byte) bool) {
	if e.Kind != Mixed && e.Kind != wanted {
		return
	}
	for rest := e.body; len(rest) > 0; {
		var kind Kind
		var body []byte
		if kind, body, rest = e.cut(rest); kind == wanted && !yield(body) {
			return
		}
	}
}

// Records yields the messages of an envelope. Data and attributes refer to the envelope's bytes.
func (e Envelope) Records() iter.Seq[Record] {
	return func(yield func(Record) bool) {
		var r Record
		e.entries(Records, func(b []byte) bool {
			if e.Format == 1 {
				b = r.entry(b)
				r.Data = b[4:len(b):len(b)]
			} else {
				r.parse(b)
			}
			return yield(r)
		})
	}
}

// States yields the client states of an envelope.
func (e Envelope) States() iter.Seq[State] {
	return func(yield func(State) bool) {
		var r Record
		e.entries(Checkpoint, func(b []byte) bool {
			b = r.entry(b)
			s := State{Client: r.Client, Epoch: r.Epoch, Last: r.Seq}
			if e.Format == 1 {
				s.Expiry, s.Claim = max(r.Time, -r.Time), r.Time < 0
				return yield(s)
			}
			s.Seen, s.Sum, s.Claim, s.Summed = r.Time, binary.BigEndian.Uint32(b), b[4]&1 != 0, b[4]&2 != 0
			s.Connected, s.Instance = b[4]&4 != 0, binary.BigEndian.Uint64(b[5:])
			return yield(s)
		})
	}
}

// Forgettings yields the sessions that the server has forgotten.
func (e Envelope) Forgettings() iter.Seq[Forgetting] {
	return func(yield func(Forgetting) bool) {
		e.entries(forgettingKind, func(b []byte) bool {
			n := 1 + int(b[0])
			return yield(Forgetting{string(b[1:n]), binary.BigEndian.Uint64(b[n:])})
		})
	}
}

// Tombstones yields the positions of envelopes whose loss an operator has accepted.
func (e Envelope) Tombstones() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		e.entries(tombstoneKind, func(b []byte) bool { return yield(binary.BigEndian.Uint64(b)) })
	}
}

// Trimmed returns the newest position before which envelopes may be deleted; 0: the envelope has none.
func (e Envelope) Trimmed() (to uint64) {
	e.entries(trimKind, func(b []byte) bool { to = max(to, binary.BigEndian.Uint64(b)); return true })
	return to
}

// Clocks yields the log's clock.
func (e Envelope) Clocks() iter.Seq[Clock] {
	return func(yield func(Clock) bool) {
		e.entries(clockKind, func(b []byte) bool {
			return yield(Clock{int64(binary.BigEndian.Uint64(b)), binary.BigEndian.Uint64(b[8:]), int64(binary.BigEndian.Uint64(b[16:]))})
		})
	}
}

// RawRecords yields the bodies of the records as format 2 stores them. They refer to the envelope's
// bytes, but those of format 1 are valid until the next one.
func (e Envelope) RawRecords() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		var room []byte
		e.entries(Records, func(b []byte) bool {
			if e.Format == 1 { // no attributes, and a length before the data
				end := 1 + int(b[0]) + sessionSize
				room = append(append(append(room[:0], b[:end]...), 0), b[end+4:]...)
				b = room
			}
			return yield(b)
		})
	}
}

// Parse sets r to what the body of a record of format 2 says, and reports whether it is well formed. r
// refers to the body's bytes.
func (r *Record) Parse(body []byte) bool {
	if !wellFormed(Records, body) {
		return false
	}
	r.parse(body)
	return true
}

// parse is Parse of a body that is well formed.
func (r *Record) parse(b []byte) {
	b = r.entry(b)
	r.Attributes = nil
	n := b[0]
	for b = b[1:]; n > 0; n-- {
		end := 3 + int(binary.BigEndian.Uint16(b[1:]))
		r.Attributes = append(r.Attributes, Attribute{AttributeKind(b[0]), b[3:end:end]})
		b = b[end:]
	}
	r.Data = b
}

// entry reads the fields that records and states have in common, and returns the rest. Adjacent
// entries of one client share its string, which saves allocations.
func (r *Record) entry(b []byte) []byte {
	n := 1 + int(b[0])
	if client := b[1:n]; r.Client != string(client) {
		r.Client = string(client)
	}
	r.Epoch = binary.BigEndian.Uint64(b[n:])
	r.Seq = binary.BigEndian.Uint64(b[n+8:])
	r.Time = int64(binary.BigEndian.Uint64(b[n+16:]))
	return b[n+sessionSize:]
}
