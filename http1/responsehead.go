package http1

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The head of a response is written straight into Turn.Out: first the handler's fields in
// net/http's order, then the server's own.

// headerField is one field of the handler's header.
type headerField struct {
	key, value string
	kind       kind
}

// kind classifies the fields that the server looks at.
type kind uint8

const (
	contentLength kind = iota
	contentType
	contentEncoding
	connection
	transferEncoding
	date
	trailer
	unknown
	dropped // an invalid name: the field is not sent
)

// knownField is the state of a field that the server looks at.
type knownField struct {
	set   bool   // the key exists, perhaps without values
	first string // the first value
}

func kindOf(key string) kind {
	switch key {
	case "Content-Length":
		return contentLength
	case "Content-Type":
		return contentType
	case "Content-Encoding":
		return contentEncoding
	case "Connection":
		return connection
	case "Transfer-Encoding":
		return transferEncoding
	case "Date":
		return date
	case "Trailer":
		return trailer
	}
	if !isToken(key) {
		return dropped
	}
	return unknown
}

// snapshot copies the handler's fields. Later changes to the header have no effect.
func (a *answer) snapshot() {
	for key, values := range a.header {
		k := kindOf(key)
		if k < unknown {
			known := &a.known[k]
			if known.set = true; len(values) > 0 {
				known.first = values[0]
			}
		}
		if k == dropped {
			a.prefixed = a.prefixed || strings.HasPrefix(key, http.TrailerPrefix)
			continue
		}
		for _, v := range values {
			a.fields = append(a.fields, headerField{key, v, k})
		}
	}
	if len(a.header) > 1 {
		slices.SortStableFunc(a.fields, func(x, y headerField) int { return strings.Compare(x.key, y.key) })
	}
}

func (a *answer) forgetFields() {
	clear(a.fields)
	a.fields, a.known, a.prefixed = a.fields[:0], [unknown]knownField{}, false
}

// appendFields writes all fields except those whose kind's bit is set in without.
func (a *answer) appendFields(out []byte, without uint) []byte {
	for i := range a.fields {
		if f := &a.fields[i]; without&(1<<f.kind) == 0 {
			out = appendField(out, f.key, f.value)
		}
	}
	return out
}

// appendField writes a field on one line: it replaces line ends in value by spaces.
func appendField(out []byte, key, value string) []byte {
	out = append(append(out, key...), ": "...)
	for value != "" && isSpace(value[0]) {
		value = value[1:]
	}
	for value != "" && isSpace(value[len(value)-1]) {
		value = value[:len(value)-1]
	}
	at := len(out)
	out = append(out, value...)
	for i, b := range out[at:] {
		if b == '\r' || b == '\n' {
			out[at+i] = ' '
		}
	}
	return append(out, "\r\n"...)
}

func isSpace(b byte) bool { return b == ' ' || b == '\t' || b == '\r' || b == '\n' }

// writeHead completes the head and writes it. p is the first part of the body, and all of it
// if the handler has returned.
func (a *answer) writeHead(p []byte) {
	a.wroteHead = true
	known := &a.known
	isHead := a.req.Method == http.MethodHead
	trailers := a.prefixed
	if known[trailer].set {
		trailers = a.findTrailers() || trailers
	}
	te := known[transferEncoding].first
	var without uint

	addLength := a.ended && !trailers && te == "" && bodyAllowed(a.status) && !known[contentLength].set && (!isHead || len(p) > 0)
	if addLength {
		a.declared = int64(len(p))
	}
	hasLength := a.declared != -1
	keepsAlive := !a.protocol.server.lastAnswer(a.turn.Conn())
	if a.wantsClose || a.overLimit() || known[connection].first == "close" || !keepsAlive {
		a.closes = true
	}
	if a.req.ContentLength != 0 && !a.closes && !a.fullDuplex {
		a.closeBody() // net/http drains it now, and handlers can observe that
	}

	sniffed := ""
	switch {
	case bodyAllowed(a.status):
		if te == "" && len(p) > 0 && !known[contentType].set && known[contentEncoding].first == "" {
			sniffed = sniff(p)
		}
	case a.status == http.StatusNotModified:
		without |= 1<<contentType | 1<<contentLength | 1<<transferEncoding
	default:
		without |= 1<<contentLength | 1<<transferEncoding
	}
	if hasLength && te != "" && te != "identity" {
		a.protocol.server.report(mistaken, func() string {
			return fmt.Sprintf("http: WriteHeader called with both Transfer-Encoding of %q and a Content-Length of %d", te, a.declared)
		})
		without |= 1 << contentLength
		hasLength = false
	}
	switch {
	case isHead || !bodyAllowed(a.status) || hasLength:
		without |= 1 << transferEncoding
	case te == "identity": // closing the connection ends the response
		a.closes = true
		without |= 1 << transferEncoding
	default:
		a.chunked = true
		without |= 1 << contentLength
		if te == "chunked" {
			without |= 1 << transferEncoding
		}
	}
	says := a.closes && (!keepsAlive || !hasToken(known[connection].first, "close")) && !a.switches()
	if says {
		without |= 1 << connection
	}

	out := appendStatusLine(a.turn.Out, a.status)
	out = a.appendFields(out, without)
	if !known[date].set {
		out = a.date.append(out, time.Now())
	}
	if addLength {
		out = append(out, "Content-Length: "...)
		out = strconv.AppendInt(out, a.declared, 10)
		out = append(out, "\r\n"...)
	}
	if sniffed != "" {
		out = append(append(append(out, "Content-Type: "...), sniffed...), "\r\n"...)
	}
	if says {
		out = append(out, "Connection: close\r\n"...)
	}
	if a.chunked {
		out = append(out, "Transfer-Encoding: chunked\r\n"...)
	}
	a.turn.Out = append(out, "\r\n"...)
}

// dateLine is the Date field, formatted once per second.
type dateLine struct {
	second int64
	line   []byte
}

func (d *dateLine) append(out []byte, now time.Time) []byte {
	if second := now.Unix(); d.second != second || d.line == nil {
		d.second = second
		d.line = now.UTC().AppendFormat(append(d.line[:0], "Date: "...), http.TimeFormat+"\r\n")
	}
	return append(out, d.line...)
}

// findTrailers records the declared trailers, and reports whether there are any.
func (a *answer) findTrailers() (any bool) {
	for i := range a.fields {
		if f := &a.fields[i]; f.kind == trailer {
			a.declareTrailers(f.value)
			any = true
		}
	}
	return any
}

// switches reports whether the response is a protocol switch.
func (a *answer) switches() bool {
	if a.status != http.StatusSwitchingProtocols {
		return false
	}
	upgrade, asks := false, false
	for i := range a.fields {
		switch f := &a.fields[i]; {
		case f.key == "Upgrade":
			upgrade = upgrade || f.value != ""
		case f.kind == connection:
			asks = asks || hasToken(f.value, "upgrade")
		}
	}
	return upgrade && asks
}

// hasToken reports whether list contains token, which is lower case.
func hasToken(list, token string) bool {
	for part := range strings.SplitSeq(list, ",") {
		for word := range strings.FieldsSeq(part) {
			if strings.EqualFold(word, token) {
				return true
			}
		}
	}
	return false
}

// isToken reports whether s is a valid field name.
func isToken(s string) bool {
	for i := range len(s) {
		if bytesOf[s[i]]&tokenByte == 0 {
			return false
		}
	}
	return s != ""
}

// appendStatusLine writes the status line.
func appendStatusLine(out []byte, code int) []byte {
	if code == http.StatusOK {
		return append(out, "HTTP/1.1 200 OK\r\n"...)
	}
	out = strconv.AppendInt(append(out, "HTTP/1.1 "...), int64(code), 10)
	if text := http.StatusText(code); text != "" {
		out = append(append(out, ' '), text...)
	} else {
		out = strconv.AppendInt(append(out, " status code "...), int64(code), 10)
	}
	return append(out, "\r\n"...)
}
