package websocket

import (
	"encoding/binary"
	"strconv"
	"unicode/utf8"
)

// Code says why a WebSocket was closed, RFC 6455 §7.4. It is an error: a handler that
// returns one closes the connection with that code.
type Code uint16

const (
	NormalClosure      Code = 1000 // the connection has served its purpose
	GoingAway          Code = 1001 // the server shuts down, or the user left the page
	ProtocolError      Code = 1002 // the peer broke the protocol
	UnsupportedData    Code = 1003 // the receiver does not accept this kind of message
	NoStatus           Code = 1005 // never sent: the Close frame carried no code
	AbnormalClosure    Code = 1006 // never sent: the connection ended without a Close frame
	InvalidPayload     Code = 1007 // a text that is not UTF-8, or corrupt compressed data
	PolicyViolation    Code = 1008 // a rule of this service was violated
	MessageTooBig      Code = 1009 // a message beyond the receiver's limit
	MandatoryExtension Code = 1010 // the client needs an extension that the server does not have
	InternalError      Code = 1011 // the server failed
	ServiceRestart     Code = 1012 // the server restarts; reconnect
	TryAgainLater      Code = 1013 // the server is overloaded
	BadGateway         Code = 1014 // the server's upstream failed
	TLSHandshake       Code = 1015 // never sent: the TLS handshake failed
)

// String returns the code's number and its name in RFC 6455 and the IANA registry.
func (c Code) String() string {
	if name := codeNames[c]; name != "" {
		return strconv.Itoa(int(c)) + " (" + name + ")"
	}
	return strconv.Itoa(int(c))
}

var codeNames = map[Code]string{
	NormalClosure:      "normal closure",
	GoingAway:          "going away",
	ProtocolError:      "protocol error",
	UnsupportedData:    "unsupported data",
	NoStatus:           "no status",
	AbnormalClosure:    "abnormal closure",
	InvalidPayload:     "invalid payload data",
	PolicyViolation:    "policy violation",
	MessageTooBig:      "message too big",
	MandatoryExtension: "mandatory extension",
	InternalError:      "internal error",
	ServiceRestart:     "service restart",
	TryAgainLater:      "try again later",
	BadGateway:         "bad gateway",
	TLSHandshake:       "TLS handshake",
}

// Error makes a Code an error.
func (c Code) Error() string { return "websocket: closed with code " + c.String() }

// onWire reports whether a Close frame may carry the code: registered codes that are not
// reserved, those of libraries and frameworks (from 3000) and private ones (from 4000).
func (c Code) onWire() bool {
	switch {
	case c >= 3000 && c <= 4999:
		return true
	case c >= InvalidPayload && c <= BadGateway:
		return true
	}
	return c >= NormalClosure && c <= UnsupportedData
}

// mostReason is the longest reason in a Close frame: a control frame's payload has 125 bytes,
// two of which are the code.
const mostReason = mostControl - 2

// parseClose parses the payload of a Close frame. Without a code it returns NoStatus.
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

// appendClosePayload appends the payload of a Close frame: nothing if the code must not be
// sent, and at most 123 bytes of the reason, cut between two characters and before the first
// byte that is not UTF-8.
func appendClosePayload(dst []byte, code Code, reason string) []byte {
	if !code.onWire() {
		return dst
	}
	dst = binary.BigEndian.AppendUint16(dst, uint16(code))
	return append(dst, reason[:closeReason(reason)]...)
}

// closeReason returns how many bytes of the reason fit.
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
