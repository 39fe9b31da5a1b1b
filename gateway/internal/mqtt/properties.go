package mqtt

import (
	"bytes"
	"unicode/utf8"
)

// Property is the identifier of a property of version 5.
type Property uint8

// The properties that have a name here.
const (
	ContentType   Property = 0x03
	SessionExpiry Property = 0x11
	AuthMethod    Property = 0x15
	WillDelay     Property = 0x18
	TopicAlias    Property = 0x23
	MaximumPacket Property = 0x27

	responseTopic  Property = 0x08
	assignedClient Property = 0x12
	serverAlive    Property = 0x13
	authData       Property = 0x16
	reasonString   Property = 0x1f
	receiveMaximum Property = 0x21
	userProperty   Property = 0x26
)

// kind is how a property is encoded: as a number of so many bytes, of which a single one is 0 or 1, or as one of these.
type kind uint8

const (
	integer kind = 5 + iota // of a variable number of bytes
	octets                  // behind their number
	words                   // the same, of UTF-8
	pair                    // of words
)

// Bits of the packets of clients that have a property. The will of a Connect has properties of its own.
const (
	will      Type = 0
	messages       = 1<<Publish | 1<<will
	authentic      = 1<<Connect | 1<<Auth
)

// known are the properties that a client sends, and numbers that a server sends.
var known = [256]struct {
	kind     kind
	of       uint // packets
	positive bool
}{
	0x01:           {1, messages, false}, // payload format
	0x02:           {4, messages, false}, // expiry of the message
	ContentType:    {words, messages, false},
	responseTopic:  {words, messages, false},
	0x09:           {octets, messages, false},       // correlation data
	0x0b:           {integer, 1 << Subscribe, true}, // identifier of a subscription
	SessionExpiry:  {4, 1<<Connect | 1<<Disconnect, false},
	serverAlive:    {2, 0, false},
	AuthMethod:     {words, authentic, false},
	authData:       {octets, authentic, false},
	0x17:           {1, 1 << Connect, false}, // request for problem information
	WillDelay:      {4, 1 << will, false},
	0x19:           {1, 1 << Connect, false}, // request for response information
	reasonString:   {words, 1<<Pubrel | 1<<Disconnect | 1<<Auth, false},
	receiveMaximum: {2, 1 << Connect, true},
	0x22:           {2, 1 << Connect, false}, // most topic aliases
	TopicAlias:     {2, 1 << Publish, false},
	userProperty:   {pair, ^uint(0), false},
	MaximumPacket:  {4, 1 << Connect, true},
}

// Properties are those of a packet or a will.
type Properties struct {
	all []byte // as they came
	has uint64 // a bit for each
}

// Has reports whether a property is there.
func (p *Properties) Has(id Property) bool { return p.has>>id&1 != 0 }

// Number returns the number that a property is; 0: it is not there.
func (p *Properties) Number(id Property) uint32 { return p.find(id, "").number }

// Bytes returns the bytes that a property is; nil: it is not there.
func (p *Properties) Bytes(id Property) []byte { return p.find(id, "").bytes }

// User returns the value of the first user property of a name; nil: there is none.
func (p *Properties) User(name string) []byte { return p.find(userProperty, name).bytes }

func (p *Properties) find(id Property, name string) value {
	for r := (parser{in: p.all}); p.Has(id) && len(r.in) > 0; {
		if is, v := r.property(); is == id && string(v.name) == name {
			return v
		}
	}
	return value{}
}

// properties reads the properties of a packet or a will.
func (r *parser) properties(p *Properties, of Type) {
	p.all = r.take(r.length())
	inner := parser{in: p.all}
	for len(inner.in) > 0 {
		id, v := inner.property()
		switch is := known[id]; {
		case is.of>>of&1 == 0:
			inner.fail(Malformed, "a property that the packet cannot have")
		case p.Has(id) && id != userProperty:
			inner.fail(ProtocolError, "a property twice")
		case is.positive && v.number == 0, is.kind == 1 && v.number > 1:
			inner.fail(ProtocolError, "the value of a property is out of range")
		}
		p.has |= 1 << id
	}
	if inner.fault != nil {
		r.fail(inner.fault.Code, inner.fault.What)
	}
}

// value is that of a property, as its kind has it.
type value struct {
	number      uint32
	bytes, name []byte
}

// property reads one property.
func (r *parser) property() (id Property, v value) {
	id = Property(r.byte()) // none has more than one byte
	switch is := known[id].kind; is {
	case integer:
		v.number = uint32(max(r.length(), 0))
	case octets:
		v.bytes = r.bytes()
	case words:
		v.bytes = r.text()
	case pair:
		v.name, v.bytes = r.text(), r.text()
	default:
		v.number = r.number(int(is))
	}
	return id, v
}

// appendNumber appends a property that is a number of a fixed size.
func appendNumber(dst []byte, id Property, n uint32) []byte {
	dst = append(dst, byte(id))
	for i := int(known[id].kind) - 1; i >= 0; i-- {
		dst = append(dst, byte(n>>(8*i)))
	}
	return dst
}

// appendText appends a property that is a text, unless it is empty.
func appendText(dst []byte, id Property, text string) []byte {
	if text == "" {
		return dst
	}
	return append(append(dst, byte(id), byte(len(text)>>8), byte(len(text))), text...)
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
