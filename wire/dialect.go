package wire

import (
	"fmt"
	"strconv"
)

// Dialect is a mapping between bytes on the wire and commands and results. Both sides
// must use the same one; nothing on the wire identifies it. The zero value is Standard,
// and only the two constants are valid.
type Dialect uint8

const (
	// Standard is the protocol of docs/protocol.md.
	Standard Dialect = iota

	// Demo is what the article's published programs use on the wire: ConnAck is 0x80 and
	// SubmitAck 0x81, acks have no content, and a result is 0 or 1. Encoding drops an
	// ack's content and writes every code other than OK as Failed; parsing reads every
	// code other than 0 as Failed and rejects an ack with content.
	Demo
)

// String returns "standard" or "demo".
func (d Dialect) String() string {
	switch d {
	case Standard:
		return "standard"
	case Demo:
		return "demo"
	}
	return "dialect " + strconv.Itoa(int(d))
}

// MarshalText returns "standard" or "demo". With it a Dialect works as a flag, by
// flag.TextVar, and as a value in JSON.
func (d Dialect) MarshalText() ([]byte, error) {
	if d > Demo {
		return nil, fmt.Errorf("wire: unknown dialect %d: use standard (0) or demo (1)", uint8(d))
	}
	return []byte(d.String()), nil
}

// UnmarshalText accepts exactly "standard" or "demo"; on anything else it leaves d
// unchanged and returns an error that names the two.
func (d *Dialect) UnmarshalText(text []byte) error {
	switch string(text) {
	case "standard":
		*d = Standard
	case "demo":
		*d = Demo
	default:
		return fmt.Errorf("wire: unknown dialect %q: use standard or demo", text)
	}
	return nil
}

// Demo's acks are one below Standard's: 0x80 for 0x81, 0x81 for 0x82. 0xff wraps to 0,
// which is not a command either.
const firstAck = 0x80

// command returns the command for the byte b, which may be an unknown one.
func (d Dialect) command(b byte) Command {
	if d == Demo && b >= firstAck {
		b++
	}
	return Command(b)
}

// code returns the byte for c, one of the constants.
func (d Dialect) code(c Command) byte {
	if d == Demo && c >= ConnAck {
		c--
	}
	return byte(c)
}

// result returns the closest result to r that the dialect can encode.
func (d Dialect) result(r Result) Result {
	if d == Demo && r != OK {
		return Failed
	}
	return r
}
