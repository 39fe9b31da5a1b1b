package mqtt

import (
	"bytes"
	"unicode/utf8"
)

// Property is the identifier of a property of version 5.
type Property uint8

// The properties that have a name here.
const (
	SessionExpiry Property = 0x11
	AuthMethod    Property = 0x15
	TopicAlias    Property = 0x23

	contentType   Property = 0x03
	responseTopic Property = 0x08
	authData      Property = 0x16
	willDelay     Property = 0x18
	userProperty  Property = 0x26
	maximumPacket Property = 0x27
)

// Properties are those of a packet or a will that a server of this kind looks at.
type Properties struct {
	Expiry      uint32 // of the session, in seconds
	MostBytes   uint32 // that the client takes in one packet; 0: no limit
	Delay       uint32 // of the will, in seconds
	ContentType []byte

	responseTopic []byte
	all           []byte // as they came
	has           uint64 // a bit for each
}

// Has reports whether a property is there.
func (p *Properties) Has(id Property) bool { return p.has>>id&1 != 0 }

// User returns the value of the first user property of a name; nil: there is none.
func (p *Properties) User(name string) []byte {
	for r := (parser{in: p.all}); p.Has(userProperty) && len(r.in) > 0; {
		if id, _, v := r.property(); id == userProperty && string(v.name) == name {
			return v.text
		}
	}
	return nil
}

// properties reads the properties of a packet or a will.
func (r *parser) properties(p *Properties, of Type) {
	p.all = r.take(r.length())
	inner := parser{in: p.all}
	for len(inner.in) > 0 {
		id, where, v := inner.property()
		switch {
		case where>>of&1 == 0:
			inner.fail(Malformed, "a property that the packet cannot have")
		case p.Has(id) && id != userProperty:
			inner.fail(ProtocolError, "a property twice")
		}
		p.has |= 1 << id
		switch id {
		case SessionExpiry:
			p.Expiry = v.number
		case maximumPacket:
			p.MostBytes = v.number
		case willDelay:
			p.Delay = v.number
		case contentType:
			p.ContentType = v.text
		case responseTopic:
			p.responseTopic = v.text
		}
	}
	if inner.fault != nil {
		r.fail(inner.fault.Code, inner.fault.What)
	}
}

// value is that of a property, as its kind has it.
type value struct {
	number     uint32
	text, name []byte
}

// will stands for the will of a Connect, which has properties of its own.
const will Type = 0

// property reads one property, and returns the packets, as bits, of clients that may have it.
func (r *parser) property() (id Property, where uint, v value) {
	const messages, authentic = 1<<Publish | 1<<will, 1<<Connect | 1<<Auth
	least, most := uint32(0), ^uint32(0)
	switch id = Property(r.byte()); id { // none has more than one byte
	case 0x01: // payload format
		where, most, v.number = messages, 1, uint32(r.byte())
	case 0x02: // expiry of the message
		where, v.number = messages, r.long()
	case contentType, responseTopic:
		where, v.text = messages, r.text()
	case 0x09: // correlation data
		where, v.text = messages, r.bytes()
	case 0x0b: // identifier of a subscription
		where, least, v.number = 1<<Subscribe, 1, uint32(max(r.length(), 0))
	case SessionExpiry:
		where, v.number = 1<<Connect|1<<Disconnect, r.long()
	case AuthMethod:
		where, v.text = authentic, r.text()
	case authData:
		where, v.text = authentic, r.bytes()
	case 0x17, 0x19: // requests for problem and response information
		where, most, v.number = 1<<Connect, 1, uint32(r.byte())
	case willDelay:
		where, v.number = 1<<will, r.long()
	case 0x1f: // reason string
		where, v.text = 1<<Pubrel|1<<Disconnect|1<<Auth, r.text()
	case 0x21: // receive maximum
		where, least, v.number = 1<<Connect, 1, uint32(r.word())
	case 0x22: // most topic aliases
		where, v.number = 1<<Connect, uint32(r.word())
	case TopicAlias:
		where, v.number = 1<<Publish, uint32(r.word())
	case maximumPacket:
		where, least, v.number = 1<<Connect, 1, r.long()
	case userProperty:
		where, v.name, v.text = ^uint(0), r.text(), r.text()
	}
	if v.number < least || v.number > most {
		r.fail(ProtocolError, "the value of a property is out of range")
	}
	return id, where, v
}

// parser reads the parts of a packet. After a fault everything is empty.
type parser struct {
	in    []byte
	fault *Fault
}

func (r *parser) fail(code Code, what string) {
	if r.in = nil; r.fault == nil {
		r.fault = &Fault{code, what}
	}
}

func (r *parser) take(n int) []byte {
	if n < 0 || n > len(r.in) {
		r.fail(Malformed, "the packet ends too early")
		return nil
	}
	b := r.in[:n:n]
	r.in = r.in[n:]
	return b
}

// number reads an integer of n bytes.
func (r *parser) number(n int) (v uint32) {
	for _, b := range r.take(n) {
		v = v<<8 | uint32(b)
	}
	return v
}

func (r *parser) byte() byte    { return byte(r.number(1)) }
func (r *parser) word() uint16  { return uint16(r.number(2)) }
func (r *parser) long() uint32  { return r.number(4) }
func (r *parser) bytes() []byte { return r.take(int(r.word())) }

// id reads the id of a packet.
func (r *parser) id() uint16 {
	id := r.word()
	if id == 0 {
		r.fail(ProtocolError, "the id of the packet is 0")
	}
	return id
}

// length reads a variable byte integer. It returns -1 if that is not complete; a longer one than necessary is a fault.
func (r *parser) length() int {
	n := 0
	for i, b := range r.in {
		n |= int(b&0x7f) << (7 * i)
		switch {
		case b < 0x80 && (b > 0 || i == 0):
			r.in = r.in[i+1:]
			return n
		case b < 0x80 || i == 3:
			r.fail(Malformed, "a length is not encoded as it must be")
			return -1
		}
	}
	return -1
}

// text reads a string, which is UTF-8 without a zero.
func (r *parser) text() []byte {
	b := r.bytes()
	if bytes.IndexByte(b, 0) >= 0 || !utf8.Valid(b) {
		r.fail(Malformed, "a string is not UTF-8, or has a zero")
		return nil
	}
	return b
}
