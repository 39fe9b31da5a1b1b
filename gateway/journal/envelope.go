package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"unicode/utf8"
)

// Sizes of the format, which docs/log-format.md describes byte by byte.
const (
	// MaxEnvelope is the size limit of an envelope. With JetStream's headers it fits into
	// the largest payload that a NATS server accepts by default, 1 MiB.
	MaxEnvelope = 1<<20 - 4096
	// maxClient is the maximum length of a client id, in bytes.
	maxClient = 255

	magic        = "HNEV"
	version      = 2 // of the format; 1 is reserved
	headerSize   = 24
	trailerSize  = 4
	sessionSize  = 3 * 8                   // epoch, sequence and time of a record or a state
	headSize     = 1 + 4                   // kind and length of an entry
	stateSize    = sessionSize + 4 + 1 + 8 // of a body, after the client
	positionSize = 2 + 2 + 5*8 + 1         // of a body, after the name
	clockSize    = 4 * 8                   // of a body, without moments
	momentSize   = 2 * 8
	packetSize   = 2 + 8 // of an id and its sequence
	maySkip      = 0x80  // bit of an entry's kind: readers that do not know it skip it
)

// entryKind is what an entry is.
type entryKind uint8

const (
	recordKind     entryKind = 1
	stateKind      entryKind = 2
	forgettingKind entryKind = 3
	tombstoneKind  entryKind = 4
	clockKind      entryKind = 5
	trimKind       entryKind = 6 | maySkip
	positionKind   entryKind = 7 | maySkip
	identityKind   entryKind = 8 | maySkip
	producerKind   entryKind = 9 | maySkip
	packetsKind    entryKind = 10 | maySkip
)

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
	Time       int64       // log time, in Unix milliseconds
	Attributes []Attribute // at most 255
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
	Topic       AttributeKind = 1
	ContentType AttributeKind = 2
	Producing   AttributeKind = 3 // which of a producer's posts the record is the last one of, see Producer
	Property    AttributeKind = 4
	PacketID    AttributeKind = 5 // two bytes, of a message that a client of MQTT sends once, see Encoder.Packets
)

// Text returns the value of the record's first attribute of a kind; empty: it has none.
func (r *Record) Text(kind AttributeKind) string {
	for _, a := range r.Attributes {
		if a.Kind == kind {
			return string(a.Value)
		}
	}
	return ""
}

// State is what the log contains for one client, up to the State's envelope.
type State struct {
	Client      string // 1 to maxClient bytes of UTF-8
	Epoch       uint64
	Last        uint64 // sequence number of the newest record in the log
	Claim       bool   // a server has taken the client; false: part of a checkpoint
	Connected   bool   // when the state was written
	Seen        int64  // log time at which the client was last connected; its age counts from Clock.Time of the same envelope
	RecordsLost bool   // the log has lost acknowledged records of this epoch, and an operator has accepted that
	Summed      bool   // Sum is known
	Sum         uint32 // running CRC-32C of the session's records, each its sequence number (8 bytes) and data
	Instance    uint64 // of the program that has the session; 0: unknown
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
	Running int64  // milliseconds for which servers of the log have run
	// Since is the position of the envelope with which the newest stretch of log time begins: the time of its
	// Clock may be earlier than times before it. 0: it is the log's first stretch.
	Since uint64
	// Moments are the beginning of the stretch, and the beginnings of pauses and steps forward after it. Of
	// many, some are joined.
	Moments []Moment
}

// Moment is a log time in Unix milliseconds, and the running time that belongs to it.
type Moment struct{ Time, Running int64 }

// Encoder builds envelopes in one buffer, without allocating once the buffer has grown.
// The zero value works.
type Encoder struct {
	buf   []byte
	begun bool
	count uint32
}

// Begin starts an envelope and discards the previous one. base is the position of the First part of the
// newest complete checkpoint, or 0: recovery reads from there.
func (e *Encoder) Begin(base uint64) { e.BeginCheckpoint(0, base, nil) }

// BeginCheckpoint starts an envelope that is part of a checkpoint and has the entries of another one, if there is one.
// base is as in Begin.
func (e *Encoder) BeginCheckpoint(part Part, base uint64, other []byte) {
	e.count, e.begun = 0, true
	e.buf = append(e.buf[:0], magic...)
	e.buf = append(e.buf, version, 0, byte(part), 0)
	e.buf = append(e.buf, 0, 0, 0, 0, 0, 0, 0, 0) // count and body length: Bytes fills them
	e.buf = binary.BigEndian.AppendUint64(e.buf, base)
	if other != nil {
		from := Trust(other)
		e.count, e.buf = uint32(from.Count), append(e.buf, from.body...)
	}
}

// Count returns how many entries the envelope has.
func (e *Encoder) Count() int { return int(e.count) }

// Size returns the size of the envelope in bytes.
func (e *Encoder) Size() int { return len(e.buf) + trailerSize }

// Record adds a message. It returns ErrTooLarge if the envelope is full, and ErrMalformed if the
// client id or the attributes are invalid; an error leaves the envelope unchanged.
func (e *Encoder) Record(r *Record) error {
	for i := range r.Attributes {
		if len(r.Attributes) > 255 || len(r.Attributes[i].Value) > 0xffff {
			return fmt.Errorf("%w: %d attributes; a record has up to 255, of up to 65535 bytes each", ErrMalformed, len(r.Attributes))
		}
	}
	start := e.start(recordKind)
	e.buf = appendNamed(e.buf, r.Client, r.Epoch, r.Seq, uint64(r.Time))
	e.buf = append(e.buf, byte(len(r.Attributes)))
	for _, a := range r.Attributes {
		e.buf = binary.BigEndian.AppendUint16(append(e.buf, byte(a.Kind)), uint16(len(a.Value)))
		e.buf = append(e.buf, a.Value...)
	}
	e.buf = append(e.buf, r.Data...)
	return e.end(start, r.Client)
}

// State adds the state of a client. It returns the same errors as Record.
func (e *Encoder) State(s *State) error {
	start, sum := e.start(stateKind), uint32(0)
	if s.Summed {
		sum = s.Sum
	}
	e.buf = appendNamed(e.buf, s.Client, s.Epoch, s.Last, uint64(s.Seen))
	e.buf = append(binary.BigEndian.AppendUint32(e.buf, sum), flags(s.Claim, s.Summed, s.Connected, s.RecordsLost))
	e.buf = binary.BigEndian.AppendUint64(e.buf, s.Instance)
	return e.end(start, s.Client)
}

// Forgetting adds that a session was forgotten. It returns the same errors as Record.
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
	words := []uint64{uint64(c.Time), c.Highest, uint64(c.Running), c.Since}
	for _, m := range c.Moments {
		words = append(words, uint64(m.Time), uint64(m.Running))
	}
	return e.words(clockKind, words...)
}

// words adds an entry of a few integers.
func (e *Encoder) words(kind entryKind, words ...uint64) error {
	start := e.start(kind)
	e.buf = appendWords(e.buf, words...)
	return e.end(start, "-")
}

// start begins an entry and returns its offset.
func (e *Encoder) start(kind entryKind) int {
	if !e.begun {
		panic("journal: Encoder: an entry without Begin")
	}
	start := len(e.buf)
	e.buf = append(e.buf, byte(kind), 0, 0, 0, 0) // length: end fills it
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
	}
	binary.BigEndian.PutUint32(e.buf[start+1:], uint32(len(e.buf)-start-headSize))
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

// Rebase sets the base of the complete envelope to a newer one, if it has an older one.
func (e *Encoder) Rebase(base uint64) {
	if Trust(e.buf).Base >= base {
		return
	}
	end := len(e.buf) - trailerSize
	binary.BigEndian.PutUint64(e.buf[headerSize-8:], base)
	binary.BigEndian.PutUint32(e.buf[end:], checksum(e.buf[:end]))
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

func validClient(client string) bool {
	return len(client) >= 1 && len(client) <= maxClient && utf8.ValidString(client)
}

// Envelope is a decoded envelope. It refers to the bytes from which it was decoded.
type Envelope struct {
	Part  Part
	Base  uint64
	Count int
	body  []byte
	sum   uint32
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
	case b[4] != version && checksum(b[:len(b)-trailerSize]) == e.sum: // else the byte may be damaged
		return Envelope{}, otherVersion("an envelope has version %d; this program reads version %d", b[4], version)
	case b[4] != version:
		return malformed("version %d", b[4])
	case e.Part&^(First|Last) != 0 || b[5] != 0 || b[7] != 0:
		return malformed("part %#x and reserved bytes %#x and %#x", b[6], b[5], b[7])
	case len(b) > MaxEnvelope:
		return malformed("%d bytes, limit %d", len(b), MaxEnvelope)
	case int64(length) != int64(len(e.body)):
		return malformed("the header claims %d bytes of entries, there are %d", length, len(e.body))
	}
	return e, nil
}

// Decode checks an envelope completely: header, checksum and every entry. The methods of the
// envelope that it returns cannot fail. Its error is ErrMalformed, or the *Refusal of another version.
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
		kind, body, after := cut(rest)
		if body == nil || !wellFormed(kind, body) {
			return Envelope{}, fmt.Errorf("%w: entry %d of %d", ErrMalformed, i+1, e.Count)
		}
		if rest = after; kind > clockKind && kind&maySkip == 0 {
			return Envelope{}, otherVersion("entry %d of %d has kind %d, which this program does not know", i+1, e.Count, kind)
		}
	}
	if len(rest) != 0 {
		return Envelope{}, fmt.Errorf("%w: %d bytes after the last entry", ErrMalformed, len(rest))
	}
	return e, nil
}

// DecodeAt is Decode of what a log has at a position: its error is a *Damage, or the *Refusal of what another version of
// this program has written.
func DecodeAt(pos uint64, b []byte) (Envelope, error) {
	e, err := Decode(b)
	if err != nil && !errors.As(err, new(*Refusal)) {
		err = &Damage{First: pos, Last: pos, Err: err}
	}
	return e, err
}

// otherVersion is the error of what another version of this program has written.
func otherVersion(format string, args ...any) error {
	return &Refusal{What: fmt.Sprintf(format, args...), Repair: "start the honed that wrote it, or use another folder or stream"}
}

// Trust returns an envelope that was checked before, without checking it again.
func Trust(b []byte) Envelope {
	end := len(b) - trailerSize
	return Envelope{
		Part: Part(b[6]), Base: binary.BigEndian.Uint64(b[16:]), Count: int(binary.BigEndian.Uint32(b[8:])),
		body: b[headerSize:end], sum: binary.BigEndian.Uint32(b[end:]),
	}
}

// cut returns the kind and the body of the entry at the front of b, and the bytes after it; the
// body is nil if the entry is longer than b. Only Decode checks more than that.
func cut(b []byte) (kind entryKind, body, rest []byte) {
	if len(b) < headSize {
		return 0, nil, nil
	}
	end := headSize + int64(binary.BigEndian.Uint32(b[1:]))
	if end > int64(len(b)) {
		return 0, nil, nil
	}
	return entryKind(b[0]), b[headSize:end:end], b[end:]
}

// clientSize returns the length of the valid client id at the front of b, or 0.
func clientSize(b []byte) int {
	if len(b) == 0 || len(b) < 1+int(b[0]) || !utf8.Valid(b[1:1+int(b[0])]) {
		return 0
	}
	return int(b[0])
}

// wellFormed checks an entry's body. Any body is fine for a kind that is unknown.
func wellFormed(kind entryKind, b []byte) bool {
	n := clientSize(b)
	rest := len(b) - 1 - n
	switch kind {
	case 0:
		return false
	case recordKind:
		return n > 0 && rest > sessionSize && attributesSize(b[1+n+sessionSize:]) > 0
	case stateKind:
		if n == 0 || rest != stateSize {
			return false
		}
		flags := b[len(b)-9]
		return flags&^15 == 0 && (flags&2 != 0 || binary.BigEndian.Uint32(b[len(b)-13:]) == 0)
	case forgettingKind:
		return n > 0 && rest == 8
	case tombstoneKind, trimKind:
		return len(b) == 8
	case clockKind:
		return len(b) >= clockSize && (len(b)-clockSize)%momentSize == 0
	case positionKind:
		return n > 0 && rest == positionSize
	case identityKind:
		return len(b) == 16
	case producerKind:
		return n > 0 && rest > sessionSize
	case packetsKind:
		return n > 0 && rest > 8 && (rest-9)%packetSize == 0
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
func (e Envelope) entries(wanted entryKind, yield func(body []byte) bool) {
	for rest := e.body; len(rest) > 0; {
		var kind entryKind
		var body []byte
		if kind, body, rest = cut(rest); kind == wanted && !yield(body) {
			return
		}
	}
}

// Records yields the messages of an envelope. Data and attributes refer to the envelope's bytes.
func (e Envelope) Records() iter.Seq[Record] {
	return func(yield func(Record) bool) {
		var r Record
		e.entries(recordKind, func(b []byte) bool {
			r.parse(b)
			return yield(r)
		})
	}
}

// States yields the client states of an envelope.
func (e Envelope) States() iter.Seq[State] {
	return func(yield func(State) bool) {
		var r Record
		e.entries(stateKind, func(b []byte) bool {
			b = r.entry(b)
			return yield(State{
				Client: r.Client, Epoch: r.Epoch, Last: r.Seq, Seen: r.Time, Sum: binary.BigEndian.Uint32(b),
				Claim: b[4]&1 != 0, Summed: b[4]&2 != 0, Connected: b[4]&4 != 0, RecordsLost: b[4]&8 != 0, Instance: binary.BigEndian.Uint64(b[5:]),
			})
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
			c := Clock{
				Time: int64(binary.BigEndian.Uint64(b)), Highest: binary.BigEndian.Uint64(b[8:]),
				Running: int64(binary.BigEndian.Uint64(b[16:])), Since: binary.BigEndian.Uint64(b[24:]),
			}
			for b = b[clockSize:]; len(b) > 0; b = b[momentSize:] {
				c.Moments = append(c.Moments, Moment{int64(binary.BigEndian.Uint64(b)), int64(binary.BigEndian.Uint64(b[8:]))})
			}
			return yield(c)
		})
	}
}

// RawRecords yields the bodies of the records. They refer to the envelope's bytes.
func (e Envelope) RawRecords() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) { e.entries(recordKind, yield) }
}

// Parse sets r to what the body of a record says, and reports whether it is well formed. r
// refers to the body's bytes.
func (r *Record) Parse(body []byte) bool {
	if !wellFormed(recordKind, body) {
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
