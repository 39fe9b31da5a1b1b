package journal

import "encoding/binary"

// PacketID returns the id of the record's message, 0 if it has none.
func (r *Record) PacketID() uint16 {
	for _, a := range r.Attributes {
		if a.Kind == PacketID && len(a.Value) == 2 {
			return binary.BigEndian.Uint16(a.Value)
		}
	}
	return 0
}

// Packets adds the ids of messages that a client of MQTT sends once (QoS 2), each with the sequence number of its record: it
// may send them again, or, if they are released, it will not. It returns the same errors as Record.
func (e *Encoder) Packets(client string, epoch uint64, released bool, seqs map[uint16]uint64) error {
	start := e.start(packetsKind)
	e.buf = append(appendNamed(e.buf, client, epoch), flags(released))
	for id, seq := range seqs {
		e.buf = appendWords(binary.BigEndian.AppendUint16(e.buf, id), seq)
	}
	return e.end(start, client)
}

// Packets calls each for what Encoder.Packets has added.
func (e Envelope) Packets(each func(client string, epoch uint64, released bool, seqs map[uint16]uint64)) {
	e.entries(packetsKind, func(b []byte) bool {
		n, seqs := 1+int(b[0]), map[uint16]uint64{}
		for rest := b[n+9:]; len(rest) >= packetSize; rest = rest[packetSize:] {
			seqs[binary.BigEndian.Uint16(rest)] = binary.BigEndian.Uint64(rest[2:])
		}
		each(string(b[1:n]), binary.BigEndian.Uint64(b[n:]), b[n+8]&1 != 0, seqs)
		return true
	})
}
