// Package delivery fills the Delivers of readers: it decides which records of an envelope a reader gets, and how they share
// frames. It only computes: envelopes and the room in a reader's window come in, contents of Delivers come out.
package delivery

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"iter"

	"github.com/hone-go/hone/gateway/internal/number"
)

// The kinds of a Deliver, its first byte.
const (
	Records = 1 // then the sum of the newest envelope and the records
	Gap     = 2 // then the reason and the first and the last missing number
)

const (
	Head       = 1 + 4    // bytes of a Deliver of records before its records
	RecordHead = 8 + 4    // bytes before a record's body: its number, the body's length
	Target     = 64 << 10 // content of a Deliver, but for a longer record
	topicKind  = 1        // journal.Topic
)

// Filter is which records a reader gets.
type Filter struct {
	Client, Prefix string // of one client, or of those whose names begin so; empty: all
	Topic          string // that topics begin with; empty: all, and records without one
	Share, Shares  uint32 // of the clients
}

func (f *Filter) everything() bool {
	return f.Client == "" && f.Prefix == "" && f.Topic == "" && f.Shares == 1
}

// wants reports whether the reader gets the record with this body.
func (f *Filter) wants(body []byte) bool {
	client := body[1 : 1+int(body[0])]
	return (f.Client == "" || string(client) == f.Client) &&
		(len(client) >= len(f.Prefix) && string(client[:len(f.Prefix)]) == f.Prefix) &&
		(f.Shares == 1 || crc32.Checksum(client, crc32.MakeTable(crc32.Castagnoli))%f.Shares == f.Share) &&
		(f.Topic == "" || bytes.HasPrefix(topic(body), []byte(f.Topic)))
}

// topic returns the first topic among the attributes of a record with this body, which begins with the client and three
// numbers.
func topic(body []byte) []byte {
	rest := body[1+int(body[0])+3*8:]
	n := rest[0]
	for rest = rest[1:]; n > 0; n-- {
		end := 3 + int(binary.BigEndian.Uint16(rest[1:]))
		if rest[0] == topicKind {
			return rest[3:end]
		}
		rest = rest[end:]
	}
	return nil
}

// Envelope is an envelope of the log as readers get it. It is encoded once for all of them, and not changed while any of
// them reads it.
type Envelope struct {
	pos    uint64
	sum    uint32
	size   int
	pieces []piece
	room   []byte // of their contents
}

// piece is a Deliver of records in a row.
type piece struct {
	first, last uint64 // numbers
	content     []byte
}

// Set makes e the envelope at a position, with this checksum, this size and these records.
func (e *Envelope) Set(pos uint64, sum uint32, size, records int, bodies iter.Seq[[]byte]) {
	e.pos, e.sum, e.size, e.pieces = pos, sum, size, e.pieces[:0]
	most := size + (RecordHead-5)*records + Head*(size/(Target/2)+1) // an entry of the log has five bytes before its body
	if cap(e.room) < most {
		e.room = make([]byte, 0, most)
	}
	room, begins, at := e.room[:0], 0, pos<<number.IndexBits
	first := at
	cut := func(last uint64) {
		if content := room[begins:len(room):len(room)]; len(content) > 0 {
			e.pieces = append(e.pieces, piece{first, last, content})
			begins = len(room)
		}
	}
	for body := range bodies {
		if len(room)-begins+RecordHead+len(body) > Target {
			cut(at - 1)
		}
		if begins == len(room) {
			first = at
			room = begin(room, sum)
		}
		room = binary.BigEndian.AppendUint64(room, at)
		room = append(binary.BigEndian.AppendUint32(room, uint32(len(body))), body...)
		at++
	}
	cut(e.last())
	e.room = room
}

// last is the largest number that a record of the envelope could have.
func (e *Envelope) last() uint64 { return e.pos<<number.IndexBits | (1<<number.IndexBits - 1) }

// Size returns how many bytes e keeps.
func (e *Envelope) Size() int { return len(e.room) }

// split yields the records of a Deliver: its content without the head.
func split(records []byte) iter.Seq2[uint64, []byte] {
	return func(yield func(uint64, []byte) bool) {
		for len(records) > 0 {
			end := RecordHead + int(binary.BigEndian.Uint32(records[8:]))
			if !yield(binary.BigEndian.Uint64(records), records[:end]) {
				return
			}
			records = records[end:]
		}
	}
}

// Nothing is a Deliver without records: it says how far the reader is.
func Nothing() []byte { return begin(nil, 0) }

func begin(dst []byte, sum uint32) []byte {
	return binary.BigEndian.AppendUint32(append(dst, Records), sum)
}

// Workspace is the memory that its owner lends to the Outs of many readers, one after the other.
type Workspace struct {
	Read Envelope // one that was read for one reader
	buf  []byte
}

// Out is what is on its way to one reader.
type Out struct {
	Filter   Filter
	Next     uint64     // the first number that was not added
	Last     uint64     // the newest number that the Deliver covers
	Excluded int        // bytes of envelopes that the Deliver covers and of which it has nothing
	Room     *Workspace // while anything is added

	sum     uint32 // of the envelope of Last
	content []byte // of the Deliver; nil: nothing was added
	shared  bool   // it is of an Envelope
}

// Shared reports whether the Deliver is a part of the last envelope that was added, and has to be sent before that changes.
func (o *Out) Shared() bool { return o.shared }

// Len returns how long the Deliver is; 0: it has nothing.
func (o *Out) Len() int { return len(o.content) }

// Add adds what an envelope has for the reader to the Deliver, which may become as long as most. It reports false if not
// everything fits: take the Deliver, and add the envelope again. If there was nothing to take, the window is full.
func (o *Out) Add(e *Envelope, most int) bool {
	found, filled := false, false
	for _, p := range e.pieces {
		if p.last < o.Next {
			continue
		}
		found = true
		if o.Filter.everything() && p.first >= o.Next {
			if !o.add(p.content[Head:], p.last, e.sum, most, p.content) {
				return false
			}
			filled = true
			continue
		}
		for number, record := range split(p.content[Head:]) {
			if number < o.Next || !o.Filter.wants(record[RecordHead:]) {
				continue
			}
			if !o.add(record, number, e.sum, most, nil) {
				return false
			}
			filled = true
		}
	}
	o.Next = e.last() + 1
	if found {
		o.Last, o.sum = e.last(), e.sum
	}
	if found && !filled {
		o.Excluded += e.size
	}
	return true
}

// add adds records up to a number, if they fit. Whole is a Deliver with just these, or nil.
func (o *Out) add(records []byte, last uint64, sum uint32, most int, whole []byte) bool {
	size := max(len(o.content), Head) + len(records)
	if o.shared || size > most || len(o.content) > 0 && len(o.content)+len(records) > Target {
		return false
	}
	if o.content == nil && len(whole) > Target/2 {
		o.content, o.shared = whole, true
	} else {
		o.Begin()
		o.content = append(o.content, records...)
	}
	o.Next, o.Last, o.sum = last+1, last, sum
	return true
}

// Begin makes a Deliver of what would be nothing.
func (o *Out) Begin() {
	if o.content == nil {
		o.content = begin(o.Room.buf[:0], 0)
	}
}

// Deliver returns the Deliver, until Sent.
func (o *Out) Deliver() []byte {
	if !o.shared {
		binary.BigEndian.PutUint32(o.content[1:], o.sum)
	}
	return o.content
}

// Sent begins the next Deliver.
func (o *Out) Sent() {
	if !o.shared {
		o.Room.buf = o.content[:0]
	}
	o.content, o.shared, o.Excluded = nil, false, 0
}
