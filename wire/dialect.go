package wire

import (
	"fmt"
	"strconv"
)

// Dialect is the set of bytes that stand for commands and results. Both sides
// must speak the same one; nothing on the wire says which. The zero value is
// Standard, and values other than the two constants are not valid.
type Dialect uint8

const (
	// Standard is the protocol of docs/protocol.md.
	Standard Dialect = iota

	// Demo is what the article's published programs put on the wire: ConnAck is
	// 0x80 and SubmitAck 0x81, nothing follows an ack's result, and a result is 0
	// or 1. Encoding drops an ack's content and writes every other code as Failed;
	// parsing reads every other code as Failed and refuses an ack with content.
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

// MarshalText returns what UnmarshalText takes; with it a Dialect is a flag, by
// flag.TextVar, and a value in JSON.
func (d Dialect) MarshalText() ([]byte, error) {
	if d > Demo {
		return nil, fmt.Errorf("wire: no dialect has the number %d: it is standard (0) or demo (1)", uint8(d))
	}
	return []byte(d.String()), nil
}

// UnmarshalText takes "standard" or "demo", exactly; on anything else it leaves d
// as it was and returns an error that names the two.
func (d *Dialect) UnmarshalText(text []byte) error {
	switch string(text) {
	case "standard":
		*d = Standard
	case "demo":
		*d = Demo
	default:
		return fmt.Errorf("wire: unknown dialect %q: it is standard or demo", text)
	}
	return nil
}

// Demo's acks stand one below Standard's: 0x80 for 0x81, 0x81 for 0x82. 0xff
// wraps to 0, which is not a command either.
const firstAck = 0x80

// command is the meaning of the byte b, which may be none.
func (d Dialect) command(b byte) Command {
	if d == Demo && b >= firstAck {
		b++
	}
	return Command(b)
}

// code is the byte for c, one of the constants.
func (d Dialect) code(c Command) byte {
	if d == Demo && c >= ConnAck {
		c--
	}
	return byte(c)
}

// result is r as far as the dialect can say it.
func (d Dialect) result(r Result) Result {
	if d == Demo && r != OK {
		return Failed
	}
	return r
}
