// Package proxy parses the header of the PROXY protocol, with which a load balancer passes on
// the address of its client.
package proxy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
)

// ErrMalformed means that a connection does not begin with a PROXY protocol header.
// There is no fallback: a listener that accepts connections with and without the header
// lets every stranger choose its own address.
var ErrMalformed = errors.New("proxy: malformed PROXY header")

const (
	// lineMax is the maximum length of a version 1 line, CRLF included; the
	// specification requires receivers to refuse longer ones.
	lineMax = 107
	// unknownMin is the length of "PROXY UNKNOWN\r\n", the shortest header of all.
	unknownMin = 15
	// fixed is the length of the fixed part of a version 2 header.
	fixed = 16
	// bodyMax bounds the addresses and TLVs of version 2. The length field could
	// claim 64 KiB, which an unauthenticated peer would make us buffer. The specification
	// tells senders to stay within one segment (536 bytes); eight times that leaves room
	// for names from a TLS certificate.
	bodyMax = 4096

	signature = "\r\n\r\n\x00\r\nQUIT\n"
)

// Parse parses a PROXY protocol header, version 1 or 2, at the front of in. It
// reads nothing after the header and keeps no state: call it again with more bytes and it
// starts over.
//
//   - need > 0: the header is valid so far and lacks at least that many bytes;
//     reading exactly need bytes never reads past the header.
//   - err == nil, need == 0: the header was in[:used] and addr is the client. An
//     invalid addr (LOCAL, UNKNOWN, unix and datagram families) means that the
//     socket's own address stays.
//   - err != nil: in is not a valid header. More bytes
//     cannot make it one.
//
// IPv4 addresses mapped into IPv6 are returned as IPv4, so that they compare with
// prefixes like those of plain sockets. TLVs are skipped.
func Parse(in []byte) (used, need int, addr netip.AddrPort, err error) {
	if len(in) > 0 && in[0] == signature[0] {
		return parseBinary(in)
	}
	return parseLine(in)
}

// parseBinary parses version 2, whose first byte has been checked.
func parseBinary(in []byte) (used, need int, addr netip.AddrPort, err error) {
	const versionAt, familyAt, lengthAt = 12, 13, 14
	const local, proxied = 0x20, 0x21 // version 2 in the high bits

	for i := range min(len(in), len(signature)) {
		if in[i] != signature[i] {
			return 0, 0, addr, ErrMalformed
		}
	}
	if len(in) > versionAt && in[versionAt] != local && in[versionAt] != proxied {
		return 0, 0, addr, ErrMalformed
	}
	least := 0
	if len(in) > familyAt && in[versionAt] == proxied { // a LOCAL header's content is ignored
		if least = bodyMin(in[familyAt]); least < 0 {
			return 0, 0, addr, ErrMalformed
		}
	}
	if len(in) > lengthAt && int(in[lengthAt]) > bodyMax>>8 {
		return 0, 0, addr, ErrMalformed
	}
	if len(in) < fixed {
		return 0, fixed - len(in), addr, nil
	}
	length := int(binary.BigEndian.Uint16(in[lengthAt:]))
	if length < least || length > bodyMax {
		return 0, 0, addr, ErrMalformed
	}
	if used = fixed + length; used > len(in) {
		return 0, used - len(in), addr, nil
	}
	body := in[fixed:used]
	if in[versionAt] == proxied {
		switch in[familyAt] {
		case 0x11: // TCP over IPv4
			ip := netip.AddrFrom4([4]byte(body))
			addr = netip.AddrPortFrom(ip, binary.BigEndian.Uint16(body[8:]))
		case 0x21: // TCP over IPv6
			ip := netip.AddrFrom16([16]byte(body)).Unmap()
			addr = netip.AddrPortFrom(ip, binary.BigEndian.Uint16(body[32:]))
		}
	}
	return used, 0, addr, nil
}

// bodyMin returns the length of the addresses of a family, or -1 for a family or
// transport that version 2 does not have.
func bodyMin(family byte) int {
	if family&0x0f > 2 { // unspecified, stream, datagram
		return -1
	}
	switch family >> 4 {
	case 0: // unspecified: no addresses
		return 0
	case 1: // IPv4
		return 2*4 + 2*2
	case 2: // IPv6
		return 2*16 + 2*2
	case 3: // unix
		return 2 * 108
	}
	return -1
}

// parseLine parses version 1, from its first byte.
func parseLine(in []byte) (used, need int, addr netip.AddrPort, err error) {
	r := text{rest: in}
	r.word("PROXY ")
	switch {
	case !r.bad && len(r.rest) == 0: // the kind is not known yet
		return 0, unknownMin - len(in), addr, nil
	case r.next('U'):
		r.unknown()
	default:
		addr = r.tcp()
	}
	if used = len(in) - len(r.rest); r.bad || used+r.short > lineMax {
		return 0, 0, netip.AddrPort{}, ErrMalformed
	}
	if r.short > 0 {
		return 0, r.short, netip.AddrPort{}, nil
	}
	return used, 0, addr, nil
}

// text parses the fields of a version 1 line, each with its terminating byte. When
// the bytes run out within a field, that field and all after it add to short the minimum
// that they still lack: the sum is the minimum that the line still lacks. After an
// invalid byte every method is a no-op.
type text struct {
	rest  []byte
	short int
	bad   bool
}

// took consumes a field that ends n bytes into rest.
func (r *text) took(n int) { r.rest = r.rest[n:] }

// lacks records that a field lacks at least n bytes beyond rest.
func (r *text) lacks(n int) { r.rest, r.short = nil, r.short+n }

func (r *text) next(c byte) bool { return len(r.rest) > 0 && r.rest[0] == c }

func (r *text) word(w string) {
	n := min(len(w), len(r.rest))
	for i := 0; i < n && !r.bad; i++ {
		r.bad = r.rest[i] != w[i]
	}
	if n == len(w) {
		r.took(n)
	} else {
		r.lacks(len(w) - n)
	}
}

// unknown parses "UNKNOWN", any text, which is ignored, and CRLF. Neither CR nor LF may
// occur alone.
func (r *text) unknown() {
	r.word("UNKNOWN")
	if r.next(' ') {
		n := bytes.IndexAny(r.rest[:min(len(r.rest), lineMax)], "\r\n")
		if n < 0 {
			n = len(r.rest)
		}
		r.took(n)
	}
	r.word("\r\n")
}

// tcp parses "TCP4" or "TCP6", the addresses and ports, and CRLF; it returns the source.
func (r *text) tcp() netip.AddrPort {
	r.word("TCP")
	address := r.address6 // assume the shorter kind until the digit has arrived
	if r.next('4') {
		address = r.address4
		r.word("4 ")
	} else {
		r.word("6 ")
	}
	src := address()
	address()
	port := r.port(' ')
	r.port('\r')
	r.word("\n")
	return netip.AddrPortFrom(src, port)
}

// port parses a number up to 65535 without leading zeros, and the byte after it.
func (r *text) port(end byte) uint16 {
	digits, value := 0, 0
	for i, c := range r.rest {
		switch {
		case c >= '0' && c <= '9' && (digits == 0 || value > 0) && value*10+int(c-'0') <= 65535:
			digits, value = digits+1, value*10+int(c-'0')
		case c == end && digits > 0:
			r.took(i + 1)
			return uint16(value)
		default:
			r.bad = true
			return 0
		}
	}
	r.lacks(1 + max(0, 1-digits))
	return 0
}

// address4 parses four numbers without leading zeros, and a space.
func (r *text) address4() netip.Addr {
	var ip [4]byte
	at, digits, value := 0, 0, 0
	for i, c := range r.rest {
		switch {
		case c >= '0' && c <= '9' && (digits == 0 || value > 0) && value*10+int(c-'0') <= 255:
			digits, value = digits+1, value*10+int(c-'0')
			ip[at] = byte(value)
		case c == '.' && digits > 0 && at < 3:
			at, digits, value = at+1, 0, 0
		case c == ' ' && digits > 0 && at == 3:
			r.took(i + 1)
			return netip.AddrFrom4(ip)
		default:
			r.bad = true
			return netip.Addr{}
		}
	}
	r.lacks(1 + max(0, 1-digits) + 2*(3-at)) // the space, a digit, the ".0" to come
	return netip.Addr{}
}

// address6 parses an IPv6 address and a space. It accepts what netip.ParseAddr accepts,
// including the dotted tail because inet_ntop writes it, but no zone. The specification
// allows "::" only for the longest run of zeros; that rule is for senders.
func (r *text) address6() netip.Addr {
	var ip [16]byte
	groups, gap, most := 0, -1, 8 // complete groups, index of "::" or -1, maximum number of groups
	digits, value := 0, 0         // of the current group
	for i, c := range r.rest {
		digit := hexDigit(c)
		switch {
		case digit >= 0 && digits < 4 && groups < most && (i != 1 || digits > 0):
			digits, value = digits+1, value<<4|digit
			binary.BigEndian.PutUint16(ip[2*groups:], uint16(value))
		case c == ':' && digits > 0 && groups+1 < most:
			groups, digits, value = groups+1, 0, 0
		case c == ':' && i == 0:
		case c == ':' && digits == 0 && gap < 0 && i > 0:
			gap, most = groups, 7 // it stands for at least one group
		case c == '.' && digits > 0 && (gap < 0 && groups == 6 || gap >= 0 && groups < 6):
			r.took(i - digits)
			tail := r.address4()
			if !tail.IsValid() {
				return netip.Addr{}
			}
			four := tail.As4()
			copy(ip[2*groups:], four[:])
			return expand(ip, groups+2, gap)
		case c == ' ' && digits > 0 && (groups == 7 || gap >= 0):
			r.took(i + 1)
			return expand(ip, groups+1, gap)
		case c == ' ' && digits == 0 && gap == groups:
			r.took(i + 1)
			return expand(ip, groups, gap)
		default:
			r.bad = true
			return netip.Addr{}
		}
	}
	switch {
	case len(r.rest) == 0 || digits > 0 && gap < 0 && groups < 7:
		r.lacks(len(":: "))
	case digits == 0 && gap != groups: // a single colon at the end
		r.lacks(len(": "))
	default:
		r.lacks(len(" "))
	}
	return netip.Addr{}
}

// expand moves the groups after the gap, if there is one, to the end.
func expand(ip [16]byte, groups, gap int) netip.Addr {
	if gap >= 0 {
		behind := ip
		clear(ip[2*gap:])
		copy(ip[16-2*(groups-gap):], behind[2*gap:2*groups])
	}
	return netip.AddrFrom16(ip).Unmap()
}

// hexDigit returns the value of a hexadecimal digit, -1 for any other byte.
func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
