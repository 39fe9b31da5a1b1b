package torture

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http2/hpack"

	"github.com/hone-go/hone/tool/load/codec"
	"github.com/hone-go/hone/tool/load/traffic"
)

// HTTP/2's types of frames, flags and settings (RFC 9113 §6).
const (
	dataFrame, headersFrame, priorityFrame, resetFrame, settingsFrame = 0, 1, 2, 3, 4
	pingFrame, goAwayFrame, windowFrame, continuationFrame            = 6, 7, 8, 9

	endStream, ackFlag, endHeaders, padded                = 1, 1, 4, 8
	tableSize, pushing, mostStreams, windowSize, listSize = 1, 2, 3, 4, 6

	preface     = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	mostFrame   = 16 << 10
	firstWindow = 65_535
	mostWindow  = 1<<31 - 1
)

var (
	errNoHTTP2   = errors.New("it does not speak HTTP/2")
	errNotServed = errors.New("the server ends the connection without serving the request")
	codes        = [...]string{"NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT", "STREAM_CLOSED", "FRAME_SIZE_ERROR",
		"REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR", "ENHANCE_YOUR_CALM", "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED", "another error"}
)

// frame is one frame.
type frame struct {
	kind, flags byte
	stream      uint32
	payload     []byte
}

func (f frame) append(dst []byte) []byte {
	n := len(f.payload)
	dst = append(dst, byte(n>>16), byte(n>>8), byte(n), f.kind, f.flags)
	return append(binary.BigEndian.AppendUint32(dst, f.stream), f.payload...)
}

// number returns the 32 bits at a place in the payload; 0: it is too short.
func (f frame) number(at int) uint32 {
	if len(f.payload) < at+4 {
		return 0
	}
	return binary.BigEndian.Uint32(f.payload[at:])
}

// code returns the name of the error at a place in the payload.
func (f frame) code(at int) string { return codes[min(int(f.number(at)), len(codes)-1)] }

// numbered returns a frame of 32 bits: a reset, or a change of a window.
func numbered(kind byte, stream, n uint32) frame {
	return frame{kind, 0, stream, binary.BigEndian.AppendUint32(nil, n)}
}

// settings returns a frame of settings, given as pairs.
func settings(pairs ...uint32) frame {
	f := frame{kind: settingsFrame}
	for pair := range slices.Chunk(pairs, 2) {
		f.payload = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(f.payload, uint16(pair[0])), pair[1])
	}
	return f
}

// event is a frame that a server has sent.
type event struct {
	frame
	status string // of a head that is complete with it
	ends   bool   // its stream
}

// frames decodes what a server sends on a connection. The zero value works.
type frames struct {
	dec    *hpack.Decoder
	status string
	block  []byte // of a head that is not complete yet
	ends   bool   // the stream, with that head
}

// cut decodes the first frame of in, of which it used so much; 0: it is incomplete.
func (r *frames) cut(in []byte) (e event, used int, err error) {
	if len(in) < 9 {
		return e, 0, nil
	}
	n := int(in[0])<<16 | int(in[1])<<8 | int(in[2])
	if n > mostFrame {
		return e, 0, errNoHTTP2 // as an answer of HTTP/1.1 looks
	}
	if used = 9 + n; len(in) < used {
		return e, 0, nil
	}
	e.frame = frame{in[3], in[4], binary.BigEndian.Uint32(in[5:]) & mostWindow, in[9:used]}
	switch e.kind {
	case resetFrame:
		e.ends = true
	case dataFrame, headersFrame, continuationFrame:
		e.ends = e.flags&endStream != 0
		if e.flags&padded != 0 {
			err = errors.New("a padded frame, which hone does not read")
		} else if e.kind != dataFrame {
			err = r.head(&e)
		}
	}
	return e, used, err
}

// head adds a frame to a head, and decodes that when it is complete.
func (r *frames) head(e *event) error {
	if e.kind == headersFrame {
		r.ends, r.status = e.ends, ""
	}
	if e.ends, r.block = false, append(r.block, e.payload...); e.flags&endHeaders == 0 && len(r.block) < mostKept {
		return nil
	}
	if r.dec == nil {
		r.dec = hpack.NewDecoder(4096, func(f field) {
			if f.Name == ":status" {
				r.status = f.Value
			}
		})
	}
	_, err := r.dec.Write(r.block)
	e.ends, e.status, r.block = r.ends, r.status, r.block[:0]
	return cmp.Or(err, r.dec.Close())
}

type field = hpack.HeaderField

// packer encodes the heads of one connection. The zero value works.
type packer struct {
	packed bytes.Buffer
	enc    *hpack.Encoder
}

// pack returns the block of a head; it is valid until the next.
func (p *packer) pack(fields ...field) []byte {
	if p.enc == nil {
		p.enc = hpack.NewEncoder(&p.packed)
	}
	p.packed.Reset()
	for _, f := range fields {
		_ = p.enc.WriteField(f) // a Buffer takes everything
	}
	return p.packed.Bytes()
}

// fields returns the good request of a target, as it is sent over HTTP/1.1, as fields of HTTP/2, which are
// not to be indexed, and its body.
func (t *target) fields(of codec.Target) (all []field, body []byte) {
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(of.Codec().AppendRequest(nil, 1, nil, nil))))
	if err != nil {
		return nil, nil
	}
	body, _ = io.ReadAll(r.Body) // as long as it says
	scheme := "http"
	if t.tls != nil {
		scheme = "https"
	}
	for _, name := range []string{"Connection", "Keep-Alive", "Te", "Upgrade", "Content-Length"} {
		r.Header.Del(name)
	}
	all = []field{{Name: ":method", Value: r.Method}, {Name: ":scheme", Value: scheme}, {Name: ":authority", Value: r.Host}, {Name: ":path", Value: r.RequestURI}}
	for name, values := range r.Header {
		for _, value := range values {
			all = append(all, field{Name: strings.ToLower(name), Value: value, Sensitive: true})
		}
	}
	return all, body
}

// codec2 asks good requests over HTTP/2, one after the other: a codec.Codec. What the server wants to have
// confirmed is confirmed with the next request.
type codec2 struct {
	codec.InOrder
	frames
	packer
	fields  []field
	body    []byte
	due     []byte // is sent before the next request
	room    int    // that the server has for bodies
	ending  bool   // the server has announced that it ends the connection
	stream  uint32
	code    uint64
	content []byte
}

func newCodec2(t *target, of codec.Target) *codec2 {
	h := &codec2{room: firstWindow}
	h.fields, h.body = t.fields(of)
	return h
}

// hello appends the beginning of a client with all the room that there can be.
func hello(dst []byte) []byte {
	dst = settings(pushing, 0, windowSize, mostWindow).append(append(dst, preface...))
	return numbered(windowFrame, 0, mostWindow-firstWindow).append(dst)
}

// AppendRequest appends a good request.
func (h *codec2) AppendRequest(dst []byte, id uint64, _ []byte, _ *traffic.Session) []byte {
	if h.stream == 0 {
		dst = hello(dst)
	}
	dst, h.due = append(dst, h.due...), h.due[:0]
	h.stream, h.code, h.content = uint32(2*id-1), 0, h.content[:0]
	h.room -= len(h.body)
	dst = frame{headersFrame, endHeaders, h.stream, h.pack(h.fields...)}.append(dst)
	for part := range slices.Chunk(h.body, mostFrame) {
		dst = frame{dataFrame, 0, h.stream, part}.append(dst)
	}
	return frame{dataFrame, endStream, h.stream, nil}.append(dst)
}

// Decode reads a frame.
func (h *codec2) Decode(a *codec.Answer, in []byte) (int, error) {
	e, used, err := h.cut(in)
	if used == 0 || err != nil {
		return used, err
	}
	mine := e.stream == h.stream
	switch {
	case e.kind == settingsFrame && e.flags&ackFlag == 0:
		h.due = frame{settingsFrame, ackFlag, 0, nil}.append(h.due)
	case e.kind == pingFrame && e.flags&ackFlag == 0:
		h.due = frame{pingFrame, ackFlag, 0, e.payload}.append(h.due)
	case e.kind == windowFrame && e.stream == 0:
		h.room += int(e.number(0))
	case e.kind == goAwayFrame:
		if h.ending = true; e.number(0)&mostWindow < h.stream {
			return used, errNotServed
		}
	case e.kind == resetFrame && mine && h.code != 0 && e.number(0) == 0:
		return used, nil // the answer has come, and the rest of the body is not wanted
	case e.kind == resetFrame && mine:
		return used, fmt.Errorf("the stream is reset with %s", e.code(0))
	case e.kind == dataFrame && mine:
		h.content = append(h.content, e.payload[:min(mostKept-len(h.content), len(e.payload))]...)
	case e.status != "" && mine:
		h.code, _ = strconv.ParseUint(e.status, 10, 16)
	}
	if a.Last = h.ending || len(h.body) > h.room; e.ends && mine {
		a.ID, a.Code, a.Content = uint64(h.stream+1)/2, uint16(h.code), h.content
	}
	return used, nil
}

// learnHTTP2 finds out whether the server answers the good request over HTTP/2 as well. If so, some
// bystanders ask it so.
func (t *target) learnHTTP2(ctx context.Context, within time.Duration) {
	if t.kind != HTTP {
		return
	}
	if c := t.conn(true); t.open(ctx, within, (*target).HTTP2, c) == nil {
		_, err := c.exchange(c.Request(nil), time.Now().Add(within))
		t.http2 = err == nil && len(c.codec.(*codec2).body) <= firstWindow
		c.Conn.Close()
	}
}
