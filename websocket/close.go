package websocket

import (
	"encoding/binary"
	"strconv"
	"unicode/utf8"
)

// Code says why a WebSocket was closed, RFC 6455 §7.4. It is an error: a handler that
// returns one closes the connection with it.
type Code uint16

const (
	NormalClosure      Code = 1000 // its purpose is fulfilled
	GoingAway          Code = 1001 // the server shuts down, or the page was left
	ProtocolError      Code = 1002 // the peer broke the protocol
	UnsupportedData    Code = 1003 // a kind of message that is not accepted here
	NoStatus           Code = 1005 // never sent: the Close frame had no code
	AbnormalClosure    Code = 1006 // never sent: the connection ended without a Close frame
	InvalidPayload     Code = 1007 // a text that is not UTF-8, or compressed data that is damaged
	PolicyViolation    Code = 1008 // a rule of this service
	MessageTooBig      Code = 1009 // a message beyond the receiver's limit
	MandatoryExtension Code = 1010 // the client needs an extension that the server does not have
	InternalError      Code = 1011 // the server failed
	ServiceRestart     Code = 1012 // the server restarts; come back
	TryAgainLater      Code = 1013 // the server is overloaded
	BadGateway         Code = 1014 // the server behind this one failed
	TLSHandshake       Code = 1015 // never sent: the TLS handshake failed
)

// String is the code as RFC 6455 and its registry call it, and its number.
func (c Code) String() string {
	name := ""
	switch c {
	case NormalClosure:
		name = "normal closure"
	case GoingAway:
		name = "going away"
	case ProtocolError:
		name = "protocol error"
	case UnsupportedData:
		name = "unsupported data"
	case NoStatus:
		name = "no status"
	case AbnormalClosure:
		name = "abnormal closure"
	case InvalidPayload:
		name = "invalid payload data"
	case PolicyViolation:
		name = "policy violation"
	case MessageTooBig:
		name = "message too big"
	case MandatoryExtension:
		name = "mandatory extension"
	case InternalError:
		name = "internal error"
	case ServiceRestart:
		name = "service restart"
	case TryAgainLater:
		name = "try again later"
	case BadGateway:
		name = "bad gateway"
	case TLSHandshake:
		name = "TLS handshake"
	default:
		return strconv.Itoa(int(c))
	}
	return strconv.Itoa(int(c)) + " (" + name + ")"
}

// Error makes a Code an error.
func (c Code) Error() string { return "websocket: closed with code " + c.String() }

// onWire reports whether a Close frame may carry the code: those that are registered and
// not reserved, those of libraries and frameworks (3000 on) and private ones (4000 on).
func (c Code) onWire() bool {
	switch {
	case c >= 3000 && c <= 4999:
		return true
	case c >= InvalidPayload && c <= BadGateway:
		return true
	}
	return c >= NormalClosure && c <= UnsupportedData
}

// mostReason is how long the reason in a Close frame may be: a control frame's payload
// has 125 bytes, and the code takes two.
const mostReason = mostControl - 2

// parseClose reads the payload of a Close frame. Without a code it is NoStatus.
func parseClose(payload []byte) (code Code, reason []byte, f fault) {
	if len(payload) == 0 {
		return NoStatus, nil, 0
	}
	if len(payload) == 1 {
		return 0, nil, faultCloseLength
	}
	code, reason = Code(binary.BigEndian.Uint16(payload)), payload[2:]
	if !code.onWire() {
		return 0, nil, faultCloseCode
	}
	if !utf8.Valid(reason) {
		return 0, nil, faultCloseText
	}
	return code, reason, 0
}

// appendClosePayload appends what a Close frame says: nothing for a code that must not be
// sent, and at most 123 bytes of the reason, cut between two characters and before what
// is not UTF-8.
func appendClosePayload(dst []byte, code Code, reason string) []byte {
	if !code.onWire() {
		return dst
	}
	dst = binary.BigEndian.AppendUint16(dst, uint16(code))
	return append(dst, reason[:closeReason(reason)]...)
}

// closeReason is how much of the reason fits.
func closeReason(reason string) int {
	n := 0
	for n < len(reason) {
		r, size := utf8.DecodeRuneInString(reason[n:])
		if n+size > mostReason || r == utf8.RuneError && size == 1 {
			break
		}
		n += size
	}
	return n
}

// appendClose appends a server's Close frame.
func appendClose(dst []byte, code Code, reason string) []byte {
	start := len(dst)
	dst = append(dst, byte(opClose)|finBit, 0)
	dst = appendClosePayload(dst, code, reason)
	dst[start+1] = byte(len(dst) - start - 2)
	return dst
}
