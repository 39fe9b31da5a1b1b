package http1

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Prepared is a status and a header that many answers have in common. The fast path has
// them laid out once, and needs no http.Header for such an answer: with seven fields it
// takes about half a microsecond less. Prepare makes one, for any number of requests at
// the same time.
type Prepared struct {
	status int
	header http.Header
	head   []byte // without the fields that each answer has for itself; nil: not laid out
}

// Field is a field of a header.
type Field struct{ Key, Value string }

// Prepare prepares answers. The header, whose values must not be changed from then on,
// should name the Content-Type, and has neither Content-Length nor Date.
func Prepare(status int, header http.Header) *Prepared {
	p := &Prepared{status: status, header: header}
	if !bodyAllowed(status) || len(header["Content-Type"]) == 0 && len(header["Content-Encoding"]) == 0 {
		return p
	}
	head := appendStatusLine(nil, status)
	for _, key := range slices.Sorted(maps.Keys(header)) {
		if k := kindOf(key); k != contentType && k != contentEncoding && k != unknown {
			return p // it says something to the server
		}
		for _, value := range header[key] {
			head = appendField(head, key, value)
		}
	}
	p.head = head
	return p
}

// Send answers with body, its length, and fields of this answer alone, whose keys are
// canonical and none that the server looks at, as Connection. It is all of the answer: the
// handler writes nothing before or behind it. Where w is neither the fast path's nor a
// wrapper of it with an Unwrap method, or has fields already, it is sent as any answer is.
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
		w.Write(body) // an error is the client's having gone
	}
}

// send reports whether it could lay out the answer by itself.
func (w *response) send(p *Prepared, body []byte, fields []Field) bool {
	a := w.begin()
	defer w.mu.Unlock()
	if a.hijacked || a.wroteHeader || len(a.header) > 0 || a.req.ContentLength != 0 || a.err != nil {
		return false
	}
	a.wroteHeader, a.wroteHead, a.status = true, true, p.status
	a.declared, a.written = int64(len(body)), int64(len(body))
	a.closes = a.wantsClose || !a.protocol.keepsAlive()
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
