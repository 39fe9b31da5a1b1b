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
	// MaxClient is the maximum length of a client id, in bytes.
	MaxClient = 255

	magic       = "HNEV"
	version     = 1
	headerSize  = 24
	trailerSize = 4
	recordSize  = 1 + 8 + 8 + 8 + 4 // without client and data
	stateSize   = 1 + 8 + 8 + 8     // without client
)

// Kind is the type of an envelope's entries.
type Kind uint8

// The kinds of envelopes.
const (
	Records    Kind = 1 // messages of clients
	Checkpoint Kind = 2 // part of the state of all clients
)

// String returns the kind's name as in JSON.
func (k Kind) String() string {
	switch k {
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
	Client string // 1 to MaxClient bytes of UTF-8
	Epoch  uint64
	Seq    uint64
	Time   int64 // Unix time in milliseconds
	Data   []byte
}

// State is one client's entry in a checkpoint.
type State struct {
	Client string // 1 to MaxClient bytes of UTF-8
	Epoch  uint64
	Last   uint64 // sequence number of the newest record in the log
	Expiry int64  // Unix time in milliseconds after which the client may be forgotten
}

// Encoder builds envelopes in one buffer, without allocating once the buffer has grown.
// The zero value works.
type Encoder struct {
	buf   []byte
	kind  Kind
	count uint32
}

// Begin starts an envelope of records and discards the previous one. base is the position of the
// First part of the newest complete checkpoint, or 0: recovery reads from there.
func (e *Encoder) Begin(base uint64) { e.begin(Records, 0, base) }

// BeginCheckpoint starts an envelope of client states. base is as in Begin.
func (e *Encoder) BeginCheckpoint(part Part, base uint64) { e.begin(Checkpoint, part, base) }

func (e *Encoder) begin(kind Kind, part Part, base uint64) {
	e.kind, e.count = kind, 0
	e.buf = append(e.buf[:0], magic...)
	e.buf = append(e.buf, version, byte(kind), byte(part), 0)
	e.buf = append(e.buf, 0, 0, 0, 0, 0, 0, 0, 0) // count and body length: Bytes fills them
	e.buf = binary.BigEndian.AppendUint64(e.buf, base)
}

// Count returns how many entries the envelope has.
func (e *Encoder) Count() int { return int(e.count) }

// Size returns the size of the envelope in bytes.
func (e *Encoder) Size() int { return len(e.buf) + trailerSize }

// Record adds a message. It returns ErrTooLarge if the envelope is full, and ErrMalformed if the
// client id is invalid; an error leaves the envelope unchanged.
func (e *Encoder) Record(r *Record) error {
	if err := e.admit(Records, r.Client, recordSize+len(r.Data)); err != nil {
		return err
	}
	e.entry(r.Client, r.Epoch, r.Seq, r.Time)
	e.buf = binary.BigEndian.AppendUint32(e.buf, uint32(len(r.Data)))
	e.buf = append(e.buf, r.Data...)
	return nil
}

// State adds the state of a client. It returns the same errors as Record.
func (e *Encoder) State(s *State) error {
	if err := e.admit(Checkpoint, s.Client, stateSize); err != nil {
		return err
	}
	e.entry(s.Client, s.Epoch, s.Last, s.Expiry)
	return nil
}

// admit checks an entry that has size bytes without its client id.
func (e *Encoder) admit(kind Kind, client string, size int) error {
	switch {
	case e.kind != kind:
		panic("journal: Encoder: an entry of the wrong kind, or without Begin")
	case !validClient(client):
		return fmt.Errorf("%w: a client id must be 1 to %d bytes of UTF-8; this one has %d bytes", ErrMalformed, MaxClient, len(client))
	case e.Size()+len(client)+size > MaxEnvelope:
		return ErrTooLarge
	}
	return nil
}

// entry adds the fields that records and states have in common.
func (e *Encoder) entry(client string, epoch, seq uint64, ms int64) {
	e.count++
	e.buf = append(e.buf, byte(len(client)))
	e.buf = append(e.buf, client...)
	e.buf = binary.BigEndian.AppendUint64(e.buf, epoch)
	e.buf = binary.BigEndian.AppendUint64(e.buf, seq)
	e.buf = binary.BigEndian.AppendUint64(e.buf, uint64(ms))
}

// Bytes completes the envelope and returns it. The bytes are valid until the next Begin.
func (e *Encoder) Bytes() []byte {
	if e.kind == 0 {
		panic("journal: Encoder: Bytes without Begin")
	}
	binary.BigEndian.PutUint32(e.buf[8:], e.count)
	binary.BigEndian.PutUint32(e.buf[12:], uint32(len(e.buf)-headerSize))
	sum := checksum(e.buf)
	e.kind = 0 // the envelope is complete: no further entries
	e.buf = binary.BigEndian.AppendUint32(e.buf, sum)
	return e.buf
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

func validClient(client string) bool {
	return len(client) >= 1 && len(client) <= MaxClient && utf8.ValidString(client)
}

// Envelope is a decoded envelope. It refers to the bytes from which it was decoded.
type Envelope struct {
	Kind  Kind
	Part  Part // 0 unless Kind is Checkpoint
	Base  uint64
	Count int
	body  []byte
}

// header checks only an envelope's header and length.
func header(b []byte) (Envelope, error) {
	malformed := func(format string, args ...any) (Envelope, error) {
		return Envelope{}, fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
	}
	if len(b) < headerSize+trailerSize {
		return malformed("%d bytes are too few", len(b))
	}
	e := Envelope{
		Kind: Kind(b[5]), Part: Part(b[6]), Base: binary.BigEndian.Uint64(b[16:]),
		Count: int(binary.BigEndian.Uint32(b[8:])), body: b[headerSize : len(b)-trailerSize],
	}
	length := binary.BigEndian.Uint32(b[12:])
	switch {
	case string(b[:4]) != magic:
		return malformed("it begins with %q", b[:4])
	case b[4] != version:
		return malformed("version %d; this program reads version %d", b[4], version)
	case e.Kind != Records && e.Kind != Checkpoint:
		return malformed("%v", e.Kind)
	case e.Part&^(First|Last) != 0 || e.Part != 0 && e.Kind != Checkpoint || b[7] != 0:
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
		size := e.entrySize(rest)
		if size < 0 {
			return Envelope{}, fmt.Errorf("%w: entry %d of %d", ErrMalformed, i+1, e.Count)
		}
		rest = rest[size:]
	}
	if len(rest) != 0 {
		return Envelope{}, fmt.Errorf("%w: %d bytes after the last entry", ErrMalformed, len(rest))
	}
	return e, nil
}

// entrySize returns the size of the entry at the front of b, or -1.
func (e Envelope) entrySize(b []byte) int {
	if len(b) == 0 {
		return -1
	}
	client := int(b[0])
	size := stateSize + client
	if e.Kind == Records {
		size = recordSize + client
	}
	if client == 0 || len(b) < size || !utf8.Valid(b[1:1+client]) {
		return -1
	}
	if e.Kind == Records {
		data := binary.BigEndian.Uint32(b[size-4:])
		if int64(data) > int64(len(b)-size) {
			return -1
		}
		size += int(data)
	}
	return size
}

// Records yields the messages of an envelope of records. Data refers to the envelope's bytes.
func (e Envelope) Records() iter.Seq[Record] {
	return func(yield func(Record) bool) {
		if e.Kind != Records {
			return
		}
		var r Record
		for rest := e.body; len(rest) > 0; {
			rest = r.entry(rest)
			length := binary.BigEndian.Uint32(rest)
			r.Data = rest[4 : 4+length : 4+length]
			rest = rest[4+length:]
			if !yield(r) {
				return
			}
		}
	}
}

// States yields the client states of a checkpoint envelope.
func (e Envelope) States() iter.Seq[State] {
	return func(yield func(State) bool) {
		if e.Kind != Checkpoint {
			return
		}
		var r Record
		for rest := e.body; len(rest) > 0; {
			rest = r.entry(rest)
			if !yield(State{Client: r.Client, Epoch: r.Epoch, Last: r.Seq, Expiry: r.Time}) {
				return
			}
		}
	}
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
	return b[n+24:]
}
