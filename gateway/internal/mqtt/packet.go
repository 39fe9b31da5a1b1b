// Package mqtt reads the packets that clients of MQTT 3.1.1 and 5 send, and writes those of a server that only takes
// messages. It knows bytes, and nothing of connections, sessions or time.
//
// It is strict: what the specifications forbid is a Fault, with the reason code that version 5 has for it. The lines of
// internal/lint/requirements.txt say which test shows which of their demands.
package mqtt

import "strings"

// Packet is a packet of a client. Its bytes are those that were parsed. Every field but Type may be missing, as the type of
// the packet has it.
type Packet struct {
	Type    Type
	ID      uint16
	Code    Code
	Filters int    // of a Subscribe or Unsubscribe
	Message        // of a Publish
	Hello   *Hello // of a Connect
}

// Message is what a Publish or a will publishes.
type Message struct {
	Topic, Payload []byte
	QoS            uint8
	Retain, Again  bool // Again: DUP
	Properties
}

// Hello is the content of a Connect.
type Hello struct {
	Version   Version // of a client whose version is refused: the one to answer in
	Clean     bool
	KeepAlive uint16 // seconds; 0: none
	Client    []byte
	Will      *Message
	User      []byte // nil: none
	Password  []byte // nil: none
	Properties
}

// Frame returns the size of the packet at the front of in. need > 0 means that it is not complete, and that it lacks as many
// bytes at least. A packet of more than most bytes is a Fault, before it has arrived.
func Frame(in []byte, most int) (size, need int, err error) {
	if len(in) > 0 && !validFlags(in[0]) {
		return 0, 0, &Fault{Malformed, "the first byte is of no packet"}
	}
	if len(in) < 2 {
		return 0, 2 - len(in), nil
	}
	r := parser{in: in[1:]}
	n := r.length()
	if n < 0 {
		if r.fault != nil {
			return 0, 0, r.fault
		}
		return 0, 1, nil
	}
	size = len(in) - len(r.in) + n
	switch {
	case size > most:
		return 0, 0, &Fault{TooLarge, "the packet is too large"}
	case size > len(in):
		return 0, size - len(in), nil
	}
	return size, 0, nil
}

// validFlags reports whether a packet may begin with a byte.
func validFlags(b byte) bool {
	switch Type(b >> 4) {
	case 0:
		return false
	case Publish:
		return b>>1&3 != 3 && b>>1&7 != 4 // QoS 3; DUP with QoS 0
	case Pubrel, Subscribe, Unsubscribe:
		return b&15 == 2
	}
	return b&15 == 0
}

// Parse reads a whole packet, whose size Frame has found. Of a Connect the version is its own. The error is a *Fault. Then
// Type is set, and of a Connect whose version is known or refused, Hello.
func (p *Packet) Parse(v Version, in []byte) error {
	*p = Packet{Type: Type(in[0] >> 4)}
	r := parser{in: in[1:]}
	r.length()
	switch p.Type {
	case Connect:
		r.connect(p)
	case Publish:
		r.publish(p, v, in[0])
	case Pubrel:
		p.ID = r.id()
		r.rest(p, v, func(c Code) bool { return c == Success || c == UnknownID })
	case Subscribe, Unsubscribe:
		r.filters(p, v)
	case Disconnect:
		r.rest(p, v, func(c Code) bool {
			return c == Success || c == WithWill || c >= 0x80 && c <= 0x83 || c == BadTopic || c >= 0x93 && c <= 0x99
		})
	case Auth:
		if v == V311 {
			r.fail(Malformed, "version 3.1.1 has no AUTH")
		}
		r.rest(p, v, func(c Code) bool { return c == Success || c == 0x18 || c == 0x19 })
	case Pingreq:
	default:
		r.fail(ProtocolError, "only a server sends such a packet, or who got a PUBLISH")
	}
	if r.fault == nil && len(r.in) > 0 {
		r.fail(Malformed, "the packet has bytes after its end")
	}
	if r.fault != nil {
		return r.fault
	}
	return nil
}

func (r *parser) publish(p *Packet, v Version, first byte) {
	m := &p.Message
	m.QoS, m.Retain, m.Again = first>>1&3, first&1 != 0, first&8 != 0
	m.Topic = r.text()
	if m.QoS > 0 {
		p.ID = r.id()
	}
	if v == V5 {
		r.properties(&m.Properties, Publish)
	}
	r.message(m)
	m.Payload, r.in = r.in, nil
}

// message checks the topic of a message.
func (r *parser) message(m *Message) {
	switch {
	case m.Has(TopicAlias):
		r.fail(BadAlias, "no topic alias is allowed here")
	case len(m.Topic) == 0:
		r.fail(ProtocolError, "the topic is empty")
	case hasWildcard(m.Topic), hasWildcard(m.Bytes(responseTopic)):
		r.fail(BadTopic, "a wildcard in the name of a topic")
	}
}

func hasWildcard(topic []byte) bool { return strings.ContainsAny(string(topic), "+#") }

// rest reads a reason code and properties, which version 3.1.1 does not have and version 5 may leave out.
func (r *parser) rest(p *Packet, v Version, known func(Code) bool) {
	if v == V311 || len(r.in) == 0 {
		return
	}
	if p.Code = Code(r.byte()); !known(p.Code) {
		r.fail(ProtocolError, "an unknown reason code")
	}
	if len(r.in) > 0 {
		r.properties(&p.Properties, p.Type)
	}
}

// filters reads what follows the first byte of a SUBSCRIBE or UNSUBSCRIBE.
func (r *parser) filters(p *Packet, v Version) {
	p.ID = r.id()
	if v == V5 {
		r.properties(&p.Properties, p.Type)
	}
	for r.fault == nil && len(r.in) > 0 {
		p.Filters++
		filter := r.text()
		if len(filter) == 0 {
			r.fail(ProtocolError, "an empty topic filter")
		}
		if p.Type == Unsubscribe {
			continue
		}
		options, reserved := r.byte(), byte(0xfc)
		if v == V5 {
			reserved = 0xc0
		}
		shared := strings.HasPrefix(string(filter), "$share/")
		if options&reserved != 0 || options&3 == 3 || options&0x30 == 0x30 || shared && options&4 != 0 {
			r.fail(ProtocolError, "reserved options of a subscription")
		}
	}
	if p.Filters == 0 {
		r.fail(ProtocolError, "no topic filter")
	}
}

func (r *parser) connect(p *Packet) {
	name, level := string(r.text()), r.byte()
	if name != "MQTT" && name != "MQIsdp" {
		r.fail(Malformed, "the protocol is not MQTT")
		return
	}
	h := &Hello{Version: V311}
	if p.Hello = h; level >= uint8(V5) {
		h.Version = V5
	}
	if r.fault == nil && (name != "MQTT" || level != uint8(V311) && level != uint8(V5)) {
		r.fail(BadVersion, "this server speaks 3.1.1 and 5")
	}
	flags := r.byte()
	h.Clean, h.KeepAlive = flags&2 != 0, r.word()
	hasWill, hasPassword, hasUser := flags&4 != 0, flags&0x40 != 0, flags&0x80 != 0
	switch {
	case flags&1 != 0, !hasWill && flags&0x38 != 0, flags&0x18 == 0x18, h.Version == V311 && hasPassword && !hasUser:
		r.fail(Malformed, "the flags of CONNECT contradict one another")
	}
	if h.Version == V5 {
		r.properties(&h.Properties, Connect)
		if h.Has(authData) && !h.Has(AuthMethod) {
			r.fail(ProtocolError, "authentication data without a method")
		}
	}
	h.Client = r.text()
	if hasWill {
		h.Will = &Message{QoS: flags >> 3 & 3, Retain: flags&0x20 != 0}
		if h.Version == V5 {
			r.properties(&h.Will.Properties, will)
		}
		h.Will.Topic, h.Will.Payload = r.text(), r.bytes()
		r.message(h.Will)
	}
	if hasUser {
		h.User = r.text()
	}
	if hasPassword {
		h.Password = r.bytes()
	}
}
