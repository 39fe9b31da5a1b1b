package codec

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// decoder is one of two decoders of the same stream.
type decoder struct {
	*httpCodec
	in []byte
}

// newDecoder returns a decoder with some outstanding requests; reads disables the fast path.
func newDecoder(t *httpTarget, reads bool) *decoder {
	d := &decoder{httpCodec: t.Codec().(*httpCodec)}
	for id := range uint64(64) {
		d.AppendRequest(nil, id+1, nil, nil)
	}
	if reads {
		d.known.misses = mostMisses
	}
	return d
}

// seen is the result of a call, and the decoder's state without its cache.
type seen struct {
	used               int
	answer             string
	err                string
	state              httpState
	headLeft, asked    int
	bodyLeft, of, size int64
	head               httpHead
}

// decode decodes once.
func (d *decoder) decode() (s seen, goesOn bool) {
	var a Answer
	used, err := d.Decode(&a, d.in)
	d.in = d.in[used:]
	s = seen{used: used, state: d.state, headLeft: d.headLeft, asked: d.asked.Len(), bodyLeft: d.bodyLeft, of: d.part, size: d.size, head: d.head}
	if a.Seen = nil; a.ID != 0 {
		s.answer = fmt.Sprintf("%+v", a)
	}
	if err != nil {
		s.err = err.Error()
	}
	return s, err == nil && used > 0 && !a.Last
}

// compareKnown decodes a stream both ways in the same pieces, up to an error or the last answer,
// and reports whether the last head was known.
func compareKnown(t *testing.T, target *httpTarget, stream []byte, next func() int) bool {
	t.Helper()
	fast, slow := newDecoder(target, false), newDecoder(target, true)
	for ended := false; len(stream) > 0 && !ended; {
		n := min(next(), len(stream))
		fast.in, slow.in = append(fast.in, stream[:n]...), append(slow.in, stream[:n]...)
		stream = stream[n:]
		for goesOn := true; goesOn && len(slow.in) > 0; {
			got, _ := fast.decode()
			var want seen
			if want, goesOn = slow.decode(); got != want {
				t.Fatalf("with known heads: %+v\nall of them read: %+v", got, want)
			}
			ended = !goesOn && want.used > 0 || want.err != ""
		}
	}
	return fast.known.misses == 0
}

func TestHTTPKnownHead(t *testing.T) {
	target := must[*httpTarget](t)(HTTP{URL: "http://h", Length: 13}.target())
	swap := func(from, to string) string { return strings.Replace(usualAnswer, from, to, 1) }
	for _, c := range []struct {
		name, stream string
		known        bool
	}{
		{"the same", strings.Repeat(usualAnswer, 3), true},
		{"another second", usualAnswer + swap("23:00:00", "23:00:01"), true},
		{"a date that is none", usualAnswer + swap("Sat, 21 Nov 2026 23:00:00 GMT", "Content-Length: 1 \tHTTP/1.1\r."), true},
		{"a date of two lines", usualAnswer + swap("Nov 2026 23:00:00 GMT", "\r\nContent-Length: 100"), false},
		{"a date of another length", usualAnswer + swap("Sat, ", ""), false},
		{"no date", strings.Repeat(strings.Replace(usualAnswer, "Date: ", "Dato: ", 1), 2), true},
		{"a status as long", usualAnswer + swap("200 OK", "404 No"), false},
		{"a length as long", usualAnswer + swap("13", "12")[:len(usualAnswer)-1], false},
		{"chunks", strings.Repeat("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", 2), true},
		{"hints before it", strings.Repeat("HTTP/1.1 103 \r\nLink: x\r\n\r\n"+usualAnswer, 2), true},
		{"hints before the second", usualAnswer + "HTTP/1.1 103 \r\n\r\n" + usualAnswer, false},
		{"too long to keep", strings.Repeat(swap("X-Request-Id: ", "X-Request-Id: "+strings.Repeat("x", mostKnown)), 2), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if known := compareKnown(t, target, []byte(c.stream), whole([]byte(c.stream))); known != c.known {
				t.Errorf("the last head was known: %v, want %v", known, c.known)
			}
			compareKnown(t, target, []byte(c.stream), one)
		})
	}
}

// Interim (1xx) answers count towards the longest head, and so does a known head after them.
func TestHTTPKnownHeadIsLimited(t *testing.T) {
	target := must[*httpTarget](t)(HTTP{URL: "http://h"}.target())
	for _, spare := range []int{-1, 0} {
		hints := "HTTP/1.1 103 \r\nX: \r\n\r\n"
		head := strings.Index(usualAnswer, "\r\n\r\n") + len("\r\n\r\n")
		hints = strings.Replace(hints, "X: ", "X: "+strings.Repeat("y", mostHead-len(hints)-head-spare), 1)
		pieces := []int{len(usualAnswer), len(hints), len(usualAnswer)}
		next := func() (n int) {
			n, pieces = pieces[0], pieces[1:]
			return n
		}
		if known := compareKnown(t, target, []byte(usualAnswer+hints+usualAnswer), next); known != (spare == 0) {
			t.Errorf("with %d bytes to spare the last head was known: %v", spare, known)
		}
	}
}

// If every head differs, caching is turned off.
func TestHTTPKnownHeadIsGivenUp(t *testing.T) {
	target := must[*httpTarget](t)(HTTP{URL: "http://h"}.target())
	var stream []byte
	for i := range mostMisses + 1 {
		stream = append(stream, strings.Replace(usualAnswer, "0123456789abcdef", fmt.Sprintf("%016x", i), 1)...)
	}
	stream = append(stream, usualAnswer+usualAnswer...)
	if compareKnown(t, target, stream, whole(stream)) {
		t.Error("a head was known")
	}
}

// FuzzHTTPKnownHead compares the decoder that caches heads with one that parses them all: after
// every call both have used the same bytes and have the same state, however the stream is split. A
// stream is two alternating answers, with some bytes changed.
func FuzzHTTPKnownHead(f *testing.F) {
	const ok = "HTTP/1.1 200 OK\r\n"
	second := strings.Replace(usualAnswer, "23:00:00", "23:00:01", 1)
	for seed, pair := range [][2]string{
		{usualAnswer, usualAnswer}, {usualAnswer, second}, {usualAnswer, ok + "Content-Length: 0\r\n\r\n"},
		{ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n\r\n", usualAnswer},
		{"HTTP/1.1 103 \r\n\r\n" + usualAnswer, usualAnswer}, {"HTTP/1.1 204 \r\nDate: \r\n\r\n", second},
		{ok + "Connection: close\r\nContent-Length: 3\r\n\r\nabc", usualAnswer}, {ok + "\r\n", usualAnswer},
		{strings.ReplaceAll(usualAnswer, "\r\n", "\n"), usualAnswer},
	} {
		f.Add([]byte(pair[0]), []byte(pair[1]), uint64(seed), uint8(0))
		f.Add([]byte(pair[0]), []byte(pair[1]), uint64(seed), uint8(7))
	}
	targets := []*httpTarget{
		must[*httpTarget](f)(HTTP{URL: "http://h", Length: 13}.target()),
		must[*httpTarget](f)(HTTP{URL: "http://h", Method: "HEAD", AnswerLimit: 100}.target()),
	}
	f.Fuzz(func(t *testing.T, one, other []byte, seed uint64, changes uint8) {
		if len(one)+len(other) > mostHead {
			return
		}
		random := rand.New(rand.NewPCG(seed, uint64(changes)))
		var stream []byte
		for range 6 {
			stream = append(stream, [][]byte{one, one, other}[random.IntN(3)]...)
		}
		for range changes {
			if len(stream) > 0 {
				stream[random.IntN(len(stream))] = "\r\n: 0GMT"[random.IntN(8)]
			}
		}
		for _, target := range targets {
			compareKnown(t, target, stream, whole(stream))
			compareKnown(t, target, stream, func() int { return 1 + random.IntN(1+2*len(one)) })
		}
	})
}
