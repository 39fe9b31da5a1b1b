package http1

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Prepared is a status and a header that many responses share. The fast path encodes them once
// and needs no http.Header for such a response: with seven fields that saves about 0.8 µs.
// Prepare makes one; it may serve any number of requests concurrently.
type Prepared struct {
	status int
	header http.Header
	head   []byte // without the fields that differ per response; nil: not encoded
}

// Field is a field of a header.
type Field struct{ Key, Value string }

// Prepare prepares responses. The header should contain the Content-Type, must contain neither
// Content-Length nor Date, and its values must not be changed afterwards.
func Prepare(status int, header http.Header) *Prepared {
	p := &Prepared{status: status, header: header}
	if !bodyAllowed(status) || len(header["Content-Type"]) == 0 && len(header["Content-Encoding"]) == 0 {
		return p
	}
	head := appendStatusLine(nil, status)
	for _, key := range slices.Sorted(maps.Keys(header)) {
		if k := kindOf(key); k != contentType && k != contentEncoding && k != unknown {
			return p // the field controls the server
		}
		for _, value := range header[key] {
			head = appendField(head, key, value)
		}
	}
	p.head = head
	return p
}

// Send answers with body, its length, and fields for this response only. Their keys must be
// canonical, and not ones that control the server, such as Connection. Send writes the complete
// response: the handler must write nothing before or after it. If w is neither the fast path's
// ResponseWriter nor a wrapper of it with an Unwrap method, or if it already has fields, Send
// writes the response in the ordinary way.
func (p *Prepared) Send(w http.ResponseWriter, body []byte, fields ...Field) {
	if of := fastPath(w); of != nil && p.head != nil && of.send(p, body, fields) {
		return
	}
	h := w.Header()
	maps.Copy(h, p.header)
	for _, f := range fields {
		h[f.Key] = []string{f.Value}
	}
	if bodyAllowed(p.status) {
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	w.WriteHeader(p.status)
	if bodyAllowed(p.status) {
		w.Write(body) // it fails only if the client has disconnected
	}
}

// send writes the encoded response, or returns false if it cannot.
func (w *response) send(p *Prepared, body []byte, fields []Field) bool {
	a := w.begin()
	defer w.mu.Unlock()
	if a.hijacked || a.wroteHeader || len(a.header) > 0 || a.req.ContentLength != 0 || a.err != nil {
		return false
	}
	a.wroteHeader, a.wroteHead, a.status = true, true, p.status
	a.declared, a.written = int64(len(body)), int64(len(body))
	a.closes = a.wantsClose || a.protocol.server.lastAnswer(a.turn.Conn())
	out := append(a.turn.Out, p.head...)
	for i := range fields {
		out = appendField(out, fields[i].Key, fields[i].Value)
	}
	out = strconv.AppendInt(append(out, "Content-Length: "...), int64(len(body)), 10)
	out = a.date.append(append(out, "\r\n"...), time.Now())
	if a.closes {
		out = append(out, "Connection: close\r\n"...)
	}
	a.turn.Out = append(out, "\r\n"...)
	if a.req.Method != http.MethodHead {
		a.raw(body)
	}
	return true
}
