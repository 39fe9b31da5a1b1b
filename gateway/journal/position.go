package journal

import (
	"encoding/binary"
	"iter"
)

// Position says how far a reader has read. Of two for one share the one with the higher Generation counts, of
// two with the same Generation the one with the higher Number, and of two with the same Number the later one.
type Position struct {
	Name       string // of the reader: 1 to maxClient bytes of UTF-8
	Share, Of  uint16 // this is share Share, from 0 on, of Of
	Number     uint64 // of the last record that was acknowledged
	Generation uint64 // of the connection that acknowledged it
	Instance   uint64 // of the program that the position is of; 0: unknown, or an operator has changed it
	Away       int64  // for how many milliseconds of running time the reader was not connected; 0: it is, or nobody knows
	Expire     int64  // milliseconds away after which the reader no longer holds the log; 0: the server's --reader-expiry
	Removed    bool   // the reader is forgotten, with all its shares
	Ordered    bool   // an operator wrote this
	Moves      bool   // it only moves what the log has with this very Generation
}

// Position adds a reader's position. It returns the same errors as Record.
func (e *Encoder) Position(p *Position) error {
	start := e.start(positionKind)
	e.buf = appendNamed(e.buf, p.Name)
	e.buf = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(e.buf, p.Share), p.Of)
	e.buf = appendWords(e.buf, p.Number, p.Generation, p.Instance, uint64(p.Away), uint64(p.Expire))
	e.buf = append(e.buf, flags(p.Removed, p.Ordered, p.Moves))
	return e.end(start, p.Name)
}

// Identity adds what makes the log another one than all others: a random number that its first server stores.
func (e *Encoder) Identity(id [16]byte) error {
	return e.words(identityKind, binary.BigEndian.Uint64(id[:]), binary.BigEndian.Uint64(id[8:]))
}

// Positions yields the positions of readers.
func (e Envelope) Positions() iter.Seq[Position] {
	return func(yield func(Position) bool) {
		e.entries(positionKind, func(b []byte) bool {
			n := 1 + int(b[0])
			p := Position{Name: string(b[1:n]), Share: binary.BigEndian.Uint16(b[n:]), Of: binary.BigEndian.Uint16(b[n+2:])}
			p.Number, p.Generation = binary.BigEndian.Uint64(b[n+4:]), binary.BigEndian.Uint64(b[n+12:])
			p.Instance = binary.BigEndian.Uint64(b[n+20:])
			p.Away, p.Expire = int64(binary.BigEndian.Uint64(b[n+28:])), int64(binary.BigEndian.Uint64(b[n+36:]))
			p.Removed, p.Ordered = b[n+44]&1 != 0, b[n+44]&2 != 0
			p.Moves = b[n+44]&4 != 0
			return yield(p)
		})
	}
}

// Identity returns the log's identity, if the envelope has it.
func (e Envelope) Identity() (id [16]byte, ok bool) {
	e.entries(identityKind, func(b []byte) bool { id, ok = [16]byte(b), true; return false })
	return id, ok
}

// Sum returns the envelope's checksum.
func (e Envelope) Sum() uint32 { return e.sum }

// Size returns how many bytes the envelope's entries have.
func (e Envelope) Size() int { return len(e.body) }
