package gateway

import (
	"encoding/binary"
	"fmt"
	"time"
)

// message is the content of a packet that is written or read: one list of its fields serves both ways.
type message struct {
	bytes []byte // written so far, or left to be read
	reads bool
	wrong string // why it cannot be read; empty: nothing
}

// encode appends a message.
func encode(dst []byte, fields func(*message)) []byte {
	m := message{bytes: dst}
	fields(&m)
	return m.bytes
}

// decode reads what encode has appended.
func decode(in []byte, fields func(*message)) error {
	m := message{bytes: in, reads: true}
	fields(&m)
	if m.wrong == "" && len(m.bytes) > 0 {
		m.wrong = fmt.Sprintf("it has %d bytes too many", len(m.bytes))
	}
	if m.wrong != "" {
		return fmt.Errorf("%w: %s", ErrHandshake, m.wrong)
	}
	return nil
}

// take returns the next bytes to be read; nil: there are not as many.
func (m *message) take(n int) []byte {
	if m.wrong == "" && n > len(m.bytes) {
		m.wrong = "it ends too early"
	}
	if m.wrong != "" {
		return nil
	}
	b := m.bytes[:n]
	m.bytes = m.bytes[n:]
	return b
}

// word is one number of size bytes, or several.
func word[T ~uint8 | ~uint16 | ~uint32 | ~uint64](m *message, size int, all ...*T) {
	for _, v := range all {
		if !m.reads {
			b := binary.BigEndian.AppendUint64(nil, uint64(*v))
			m.bytes = append(m.bytes, b[8-size:]...)
			continue
		}
		n := uint64(0)
		for _, b := range m.take(size) {
			n = n<<8 | uint64(b)
		}
		*v = T(n)
	}
}

// raw are bytes of a fixed number.
func (m *message) raw(b []byte) {
	if m.reads {
		copy(b, m.take(len(b)))
	} else {
		m.bytes = append(m.bytes, b...)
	}
}

// begins is the word with which the message begins.
func (m *message) begins(magic string) {
	b := [4]byte([]byte(magic))
	m.raw(b[:])
	if m.reads && m.wrong == "" && string(b[:]) != magic {
		m.wrong = "it does not begin with " + magic
	}
}

// flags are bits of a byte, the lowest first.
func (m *message) flags(bits ...*bool) {
	b := byte(0)
	for i, bit := range bits {
		if *bit {
			b |= 1 << i
		}
	}
	word(m, 1, &b)
	for i, bit := range bits {
		*bit = b>>i&1 != 0
	}
	if b>>len(bits) != 0 && m.wrong == "" {
		m.wrong = fmt.Sprintf("there are no flags %d", b)
	}
}

// seconds rounds down, so that a client that obeys the value is never late; 0 is no limit.
func (m *message) seconds(d *time.Duration) {
	n := uint32(min(max(*d/time.Second, 0), 1<<32-1))
	if word(m, 4, &n); m.reads {
		*d = time.Duration(n) * time.Second
	}
}

// text fills the rest.
func (m *message) text(text *string) {
	if !m.reads {
		m.bytes = append(m.bytes, *text...)
		return
	}
	*text = string(m.take(len(m.bytes)))
}

// name is a name that fills the rest.
func (m *message) name(name *string) {
	m.text(name)
	if err := checkClientID(*name); m.reads && err != nil && m.wrong == "" {
		m.wrong = err.Error()
	}
}

// credentials are a name and a token, each behind its length.
func (m *message) credentials(name, token *string) {
	n, t := uint8(len(*name)), uint16(len(*token))
	word(m, 1, &n)
	if !m.reads {
		m.bytes = append(m.bytes, *name...)
		word(m, 2, &t)
		m.bytes = append(m.bytes, *token...)
		return
	}
	part := message{bytes: m.take(int(n)), reads: true, wrong: m.wrong}
	part.name(name)
	m.wrong = part.wrong
	if word(m, 2, &t); t > maxToken && m.wrong == "" {
		m.wrong = fmt.Sprintf("the token has %d bytes; the limit is %d", t, maxToken)
	}
	*token = string(m.take(int(t)))
}

// field is what may follow the fields that every message has: its kind, the length of its value, the value.
type field struct {
	kind  byte
	has   bool // when it is written
	value func(*message)
}

// optional are fields that fill the rest. Others than these are skipped.
func (m *message) optional(all ...field) {
	for _, f := range all {
		if !m.reads && f.has {
			m.bytes = append(m.bytes, f.kind, 0, 0)
			begins := len(m.bytes)
			f.value(m)
			binary.BigEndian.PutUint16(m.bytes[begins-2:], uint16(len(m.bytes)-begins))
		}
	}
	for m.reads && m.wrong == "" && len(m.bytes) > 0 {
		var kind uint8
		var size uint16
		word(m, 1, &kind)
		word(m, 2, &size)
		value := message{bytes: m.take(int(size)), reads: true, wrong: m.wrong}
		for _, f := range all {
			if f.kind == kind && value.wrong == "" {
				if f.value(&value); value.wrong == "" && len(value.bytes) > 0 {
					value.wrong = fmt.Sprintf("field %d is too long", kind)
				}
			}
		}
		m.wrong = value.wrong
	}
}
