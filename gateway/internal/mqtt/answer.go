package mqtt

// Welcome is the content of a CONNACK. Version 3.1.1 has only Present and Code.
type Welcome struct {
	Code      Code
	Present   bool // there is a session
	InFlight  uint16
	MostBytes int    // of a packet
	Client    string // that the server has chosen; empty: the client's own
	Expiry    uint32 // of the session
	Expires   bool   // Expiry is not what the client has asked for
	KeepAlive uint16 // that the client has instead of its own; 0: its own
	Reason    string
}

// Append appends a CONNACK.
func (w *Welcome) Append(dst []byte, v Version) []byte {
	flags := byte(0)
	if w.Present {
		flags = 1
	}
	if v != V5 {
		return append(dst, byte(Connack)<<4, 2, flags, w.Code.of311())
	}
	p := []byte{}
	if w.Code == Success {
		p = appendNumber(p, receiveMaximum, uint32(w.InFlight))
		p = append(p, 0x25, 0, 0x28, 0, 0x29, 0, 0x2a, 0) // none of what these say is offered
		p = appendNumber(p, MaximumPacket, uint32(w.MostBytes))
	}
	p = appendText(p, assignedClient, w.Client)
	if w.Expires {
		p = appendNumber(p, SessionExpiry, w.Expiry)
	}
	if w.KeepAlive > 0 {
		p = appendNumber(p, serverAlive, uint32(w.KeepAlive))
	}
	return appendPacket(dst, Connack, []byte{flags, byte(w.Code)}, appendText(p, reasonString, w.Reason))
}

// of311 returns the return code of version 3.1.1 that is nearest to a code.
func (c Code) of311() byte {
	switch c {
	case Success:
		return 0
	case BadVersion:
		return 1
	case BadClient:
		return 2
	case NotAuthorised, BadMethod:
		return 5
	}
	return 3
}

// AppendAck appends a PUBACK, PUBREC or PUBCOMP. Version 3.1.1 has no codes.
func AppendAck(dst []byte, v Version, t Type, id uint16, code Code) []byte {
	if v != V5 || code == Success {
		return append(dst, byte(t)<<4, 2, byte(id>>8), byte(id))
	}
	return append(dst, byte(t)<<4, 3, byte(id>>8), byte(id), byte(code))
}

// AppendRefusal appends the answer to a Subscribe or Unsubscribe that changes nothing.
func AppendRefusal(dst []byte, v Version, p *Packet) []byte {
	t, code, head := Suback, NotAuthorised, []byte{byte(p.ID >> 8), byte(p.ID)}
	if p.Type == Unsubscribe {
		t, code = Unsuback, NoSubscription
	}
	switch {
	case v == V5:
		head = append(head, 0) // no properties
	case t == Unsuback:
		return appendPacket(dst, t, head, nil)
	default:
		code = 0x80
	}
	for range p.Filters {
		head = append(head, byte(code))
	}
	dst = appendLength(append(dst, byte(t)<<4), len(head))
	return append(dst, head...)
}

// AppendDisconnect appends a DISCONNECT, which a server may send in version 5 only.
func AppendDisconnect(dst []byte, code Code, reason string) []byte {
	return appendPacket(dst, Disconnect, []byte{byte(code)}, appendText([]byte{}, reasonString, reason))
}

// AppendPong appends the answer to a Pingreq.
func AppendPong(dst []byte) []byte { return append(dst, byte(Pingresp)<<4, 0) }

// appendPacket appends a packet of a head and properties; nil: it cannot have any.
func appendPacket(dst []byte, t Type, head, properties []byte) []byte {
	var size []byte
	if properties != nil {
		size = appendLength(nil, len(properties))
	}
	dst = appendLength(append(dst, byte(t)<<4), len(head)+len(size)+len(properties))
	return append(append(append(dst, head...), size...), properties...)
}

// appendLength appends a variable byte integer.
func appendLength(dst []byte, n int) []byte {
	for ; n > 0x7f; n >>= 7 {
		dst = append(dst, byte(n)|0x80)
	}
	return append(dst, byte(n))
}
