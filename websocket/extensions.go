package websocket

import (
	"strconv"
	"strings"
)

// extension is one element of Sec-WebSocket-Extensions.
type extension struct {
	name       string
	parameters []parameter
}

// parameter is a parameter of an extension. One without a value differs from one with an
// empty value.
type parameter struct {
	name, value string
	hasValue    bool
}

// parseExtensions parses Sec-WebSocket-Extensions by the grammar of RFC 6455 §9.1.
func parseExtensions(values []string) (list []extension, ok bool) {
	for _, v := range values {
		for rest := skipBlanks(v); rest != ""; {
			if rest[0] == ',' { // an empty element
				rest = skipBlanks(rest[1:])
				continue
			}
			var e extension
			if e, rest, ok = cutExtension(rest); !ok {
				return nil, false
			}
			list = append(list, e)
		}
	}
	return list, true
}

// cutExtension cuts one element off s, up to the comma after it.
func cutExtension(s string) (e extension, rest string, ok bool) {
	if e.name, rest = cutToken(s); e.name == "" {
		return e, "", false
	}
	for rest != "" && rest[0] == ';' {
		var p parameter
		if p.name, rest = cutToken(skipBlanks(rest[1:])); p.name == "" {
			return e, "", false
		}
		if rest != "" && rest[0] == '=' {
			p.hasValue = true
			if p.value, rest, ok = cutValue(skipBlanks(rest[1:])); !ok {
				return e, "", false
			}
		}
		e.parameters = append(e.parameters, p)
	}
	return e, rest, rest == "" || rest[0] == ','
}

// cutToken cuts a token and the blanks after it off s. It returns "" if there is none.
func cutToken(s string) (token, rest string) {
	n := 0
	for n < len(s) && isTokenByte(s[n]) {
		n++
	}
	return s[:n], skipBlanks(s[n:])
}

// cutValue cuts a token off s, or a quoted string whose content is a token.
func cutValue(s string) (value, rest string, ok bool) {
	if s == "" || s[0] != '"' {
		value, rest = cutToken(s)
		return value, rest, value != ""
	}
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return value, skipBlanks(s[i+1:]), isToken(value)
		case '\\':
			if i++; i == len(s) {
				return "", "", false
			}
		}
		value += s[i : i+1]
	}
	return "", "", false
}

func skipBlanks(s string) string { return strings.TrimLeft(s, " \t") }

// The parameters of permessage-deflate, RFC 7692 §7.1.
const (
	deflateName        = "permessage-deflate"
	serverNoTakeover   = "server_no_context_takeover"
	clientNoTakeover   = "client_no_context_takeover"
	serverWindowBits   = "server_max_window_bits"
	clientWindowBits   = "client_max_window_bits"
	deflateNoTakeovers = deflateName + "; " + serverNoTakeover + "; " + clientNoTakeover
)

// deflateOffer is what our client offers: no context takeover either, and a smaller window
// for what it sends if the server wants that.
const deflateOffer = deflateNoTakeovers + "; " + clientWindowBits

// chooseDeflate accepts the first offer of permessage-deflate that it can honour. The answer
// makes both sides forget each message, whatever was offered: RFC 7692 §7.1.1 lets the server
// demand that, and a window per connection would cost 32 KiB. A zero window means no offer.
func chooseDeflate(offers []extension) (window uint8, answer string) {
	for _, o := range offers {
		if o.name != deflateName {
			continue
		}
		parameters, ok := readDeflate(o)
		if !ok {
			continue
		}
		if parameters.serverWindow == 0 {
			return mostWindow, deflateNoTakeovers
		}
		return parameters.serverWindow, deflateNoTakeovers + "; " + serverWindowBits + "=" + strconv.Itoa(int(parameters.serverWindow))
	}
	return 0, ""
}

// acceptsDeflate reports whether a server's answer accepts deflateOffer, and the window that
// the client then has for sending.
func acceptsDeflate(answer extension) (window uint8, ok bool) {
	p, ok := readDeflate(answer)
	if p.clientWindow == 0 {
		p.clientWindow = mostWindow
	}
	return p.clientWindow, ok && answer.name == deflateName && p.serverForgets && !p.anyClientWindow
}

// deflateParameters are the parameters of an offer or an answer of permessage-deflate.
type deflateParameters struct {
	serverForgets   bool
	serverWindow    uint8 // 0: absent
	clientWindow    uint8 // 0: absent
	anyClientWindow bool  // present without a value, as only an offer may have it
}

// readDeflate reads the parameters. ok is false if one is unknown, invalid or repeated: then
// the offer must be declined as a whole.
func readDeflate(e extension) (d deflateParameters, ok bool) {
	seen := make(map[string]bool, len(e.parameters))
	for _, p := range e.parameters {
		bits, isBits := windowBits(p.value)
		switch {
		case seen[p.name]:
			return d, false
		case p.name == serverNoTakeover && !p.hasValue:
			d.serverForgets = true
		case p.name == clientNoTakeover && !p.hasValue: // our client never takes its context over
		case p.name == serverWindowBits && isBits:
			d.serverWindow = bits
		case p.name == clientWindowBits && isBits:
			d.clientWindow = bits
		case p.name == clientWindowBits && !p.hasValue:
			d.anyClientWindow = true
		default:
			return d, false
		}
		seen[p.name] = true
	}
	return d, true
}

// windowBits parses a window size: 8 to 15, without leading zeros.
func windowBits(s string) (bits uint8, ok bool) {
	n, err := strconv.ParseUint(s, 10, 8)
	if err != nil || n < leastWindow || n > mostWindow || s[0] == '0' {
		return 0, false
	}
	return uint8(n), true
}
