package journal

import (
	"encoding/binary"
	"iter"
)

// Producer is a program that numbers what it sends of a client, and the newest post of it that the log has. A number is
// of an epoch, which the program chooses.
type Producer struct {
	Client, ID string // of 1 to 64 bytes
	Epoch, Seq uint64
	Seen       int64 // log time of that post, as State.Seen
}

// Attribute returns what the last record of the post says of the producer.
func (p *Producer) Attribute() Attribute {
	return Attribute{Producing, append(appendWords(nil, p.Epoch, p.Seq), p.ID...)}
}

// Producer returns the producer whose post ends with the record.
func (r *Record) Producer() (p Producer, is bool) {
	for _, a := range r.Attributes {
		if a.Kind == Producing && len(a.Value) > 16 {
			return Producer{Client: r.Client, ID: string(a.Value[16:]), Epoch: binary.BigEndian.Uint64(a.Value), Seq: binary.BigEndian.Uint64(a.Value[8:])}, true
		}
	}
	return p, false
}

// Producer adds what the log has of a producer. It returns the same errors as Record.
func (e *Encoder) Producer(p *Producer) error {
	start := e.start(producerKind)
	e.buf = append(appendNamed(e.buf, p.Client, p.Epoch, p.Seq, uint64(p.Seen)), p.ID...)
	return e.end(start, p.Client)
}

// Producers yields the producers of an envelope.
func (e Envelope) Producers() iter.Seq[Producer] {
	return func(yield func(Producer) bool) {
		var r Record
		e.entries(producerKind, func(b []byte) bool {
			id := r.entry(b)
			return yield(Producer{Client: r.Client, ID: string(id), Epoch: r.Epoch, Seq: r.Seq, Seen: r.Time})
		})
	}
}
