package websocket

import (
	"bytes"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// stream builds a client's frames from alternating first bytes and payloads.
func stream(parts ...any) (b []byte) {
	for i := 0; i < len(parts); i += 2 {
		b = appendMaskedWith(b, 0x3d21fa37+uint32(i), byte(parts[i].(int)), []byte(parts[i+1].(string)))
	}
	return b
}

// TestFaults checks every protocol violation: its close code, and the events before it.
func TestFaults(t *testing.T) {
	c := config{limit: 1000, server: true}
	deflate := config{limit: 1000, server: true, window: mostWindow}
	ascii := strings.Repeat("x", 1001)
	for _, test := range []struct {
		name   string
		c      config
		stream []byte
		want   fault
		events int
	}{
		{"RSV1 without an extension", c, stream(0xc1, "a"), faultCompressed, 0},
		{"RSV2", c, stream(0xa1, "a"), faultReserved, 0},
		{"RSV3", c, stream(0x91, "a"), faultReserved, 0},
		{"RSV1 on a ping", deflate, stream(0xc9, "a"), faultCompressed, 0},
		{"RSV1 on a continuation", deflate, stream(0x41, "a", 0xc0, "b"), faultCompressed, 0},
		{"RSV1 on a message", deflate, stream(0xc1, "a", 0xc2, "b"), 0, 2},
		{"opcode 3", c, stream(0x83, "a"), faultOpcode, 0},
		{"opcode 7 after a message", c, stream(0x81, "a", 0x87, "a"), faultOpcode, 1},
		{"opcode 11", c, stream(0x8b, ""), faultOpcode, 0},
		{"opcode 15", c, stream(0x8f, ""), faultOpcode, 0},
		{"no mask", c, appendFrame(nil, 0x81, []byte("a")), faultUnmasked, 0},
		{"no mask, and nothing else", c, []byte{0x81, 0}, faultUnmasked, 0},
		{"a mask from a server", config{limit: 1000}, stream(0x81, "a"), faultMasked, 0},
		{"a long ping", c, stream(0x89, ascii[:126]), faultControlLength, 0},
		{"the longest ping", c, stream(0x89, ascii[:125]), 0, 1},
		{"a fragmented ping", c, stream(0x09, "a", 0x80, "b"), faultControlFragment, 0},
		{"a fragmented close", c, stream(0x08, ""), faultControlFragment, 0},
		{"a continuation of nothing", c, stream(0x80, "a"), faultContinuation, 0},
		{"a continuation after a message", c, stream(0x81, "a", 0x00, "b"), faultContinuation, 1},
		{"a text within a text", c, stream(0x01, "a", 0x81, "b"), faultInterleaved, 0},
		{"a binary within a text", c, stream(0x01, "a", 0x89, "", 0x02, "b"), faultInterleaved, 1},
		{"16 bits for a short length", c, []byte{0x82, 0xfe, 0, 125, 0, 0, 0, 0}, faultLength, 0},
		{"64 bits for a length of 16", c, []byte{0x82, 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0}, faultLength, 0},
		{"a length of 64 bits", c, []byte{0x82, 0xff, 0x80, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0}, faultLength, 0},
		{"a length of 63 bits", c, []byte{0x82, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}, faultTooBig, 0},
		{"the limit", c, stream(0x82, ascii[:1000]), 0, 1},
		{"one byte over it", c, stream(0x82, ascii), faultTooBig, 0},
		{"its head alone", c, stream(0x82, ascii)[:8], faultTooBig, 0},
		{"the limit in fragments", c, stream(0x02, ascii[:500], 0x80, ascii[:500]), 0, 1},
		{"one byte over it in fragments", c, stream(0x01, ascii[:500], 0x89, "", 0x80, ascii[:501]), faultTooBig, 1},
		{"a compressed message over the limit", deflate, stream(0xc2, ascii), 0, 1},
		{"one that could not be of a message within it", deflate, stream(0xc2, strings.Repeat("x", 1190)), faultTooBig, 0},
		{"half a close code", c, stream(0x88, "\x03"), faultCloseLength, 0},
		{"a close code that must not be sent", c, stream(0x88, "\x03\xee"), faultCloseCode, 0},
		{"a close reason that is not UTF-8", c, stream(0x88, "\x03\xe8\xff"), faultCloseText, 0},
		{"anything after a close", c, stream(0x88, "", 0xff, "a"), 0, 1},
		{"a close within a message", c, stream(0x01, "a", 0x88, "\x03\xe8", 0x80, "\xff"), 0, 1},
		{"a text that is not UTF-8", c, stream(0x81, "a\xff"), faultText, 0},
		{"the same as binary", c, stream(0x82, "a\xff"), 0, 1},
		{"the same compressed", deflate, stream(0xc1, "a\xff"), 0, 1},
		{"half a character at the end", c, stream(0x81, "a\xc3"), faultText, 0},
		{"half a character at the end of fragments", c, stream(0x01, "a", 0x00, "\xc3", 0x80, ""), faultText, 0},
		{"a character in three fragments", c, stream(0x01, "\xe2", 0x00, "\x82", 0x8a, "", 0x80, "\xac"), 0, 2},
		{"a surrogate in two fragments", c, stream(0x01, "\xed", 0x00, "\xa0"), faultText, 0},
	} {
		r := newReader(t, test.c)
		d := decoder{limit: test.c.limit, server: test.c.server, window: test.c.window}
		in, used, got := bytes.Clone(test.stream), 0, fault(0)
		for {
			e, f := d.next(in[used:])
			used += e.used
			if got = f; f != 0 || e.op == opContinuation {
				break
			}
			r.h.events = append(r.h.events, seen{op: e.op})
		}
		if got != test.want || len(r.h.events) != test.events {
			t.Errorf("%s: %v after %d events, want %v after %d", test.name, got, len(r.h.events), test.want, test.events)
		}
		compare(t, test.stream, test.c, []byte{3})
	}
}

// TestFailsFast checks that a text is refused at the first byte that no continuation can make
// valid, as Autobahn's cases 6.4 require, by a reader that waits for as many bytes as needed.
func TestFailsFast(t *testing.T) {
	for _, test := range []struct {
		name, text string
		bad        int // index of the bad byte
	}{
		{"beyond U+10FFFF", "κόσμε\xf4\x90\x80\x80edited", 11},
		{"overlong, two bytes", "ab\xc0\xaf", 2},
		{"overlong, three bytes", "ab\xe0\x9f\xbf", 3},
		{"overlong, four bytes", "ab\xf0\x8f\xbf\xbf", 3},
		{"a surrogate", "ab\xed\xa0\x80", 3},
		{"a continuation of nothing", "ab\x80", 2},
		{"no continuation", "ab\xe2\x82a", 4},
		{"a byte that never is", "ab\xf5", 2},
	} {
		for cut := 0; cut <= test.bad; cut++ { // the first frame ends here
			whole := stream(0x01, test.text[:cut], 0x80, test.text[cut:])
			bad := 6 + cut + 6 + test.bad - cut
			for size := range 5 {
				r := newReader(t, config{limit: 1000, server: true})
				for at, end := 0, 0; end < len(whole) && r.h.code == 0; {
					if end = min(end+1+size, len(whole)); end-at >= r.need {
						r.visit(whole[at:end])
						at = end
					}
					if want := end > bad; (r.h.code == InvalidPayload) != want {
						t.Fatalf("%s, cut at %d: with %d bytes of %d the code is %d; byte %d is bad", test.name, cut, end, len(whole), r.h.code, bad)
					}
				}
			}
		}
	}
}

// TestFewReadsForLongText checks that a reader that reads no byte too many needs few reads for a long text, and
// that the end of every text is validated byte by byte.
func TestFewReadsForLongText(t *testing.T) {
	frame := stream(0x81, strings.Repeat("x", 60_000))
	var state uint64
	reads := 0
	for n := 0; n < len(frame); reads++ {
		d := decoder{limit: 60_000, server: true}
		d.load(state)
		e, f := d.next(frame[:n])
		if state = d.state(); f != 0 || e.need < 1 || e.need > len(frame)-n || len(frame)-n < 32 && e.need != 1 {
			t.Fatalf("with %d bytes of %d it needs %d, %v", n, len(frame), e.need, f)
		}
		n += e.need
	}
	if reads > 200 {
		t.Errorf("%d reads for %d bytes", reads, len(frame))
	}
}

// TestValidate compares with package utf8 for all sequences of up to three bytes, whole and in
// two pieces.
func TestValidate(t *testing.T) {
	check := func(b []byte) {
		s, ok := textWhole.validate(b)
		if ok != couldBeText(b) || ok && (s == textWhole) != utf8.Valid(b) {
			t.Fatalf("%x: %d, %v", b, s, ok)
		}
		for i := range b {
			s1, ok1 := textWhole.validate(b[:i])
			if ok1 {
				s1, ok1 = s1.validate(b[i:])
			}
			if ok1 != ok || ok && s1 != s {
				t.Fatalf("%x and %x: %d, %v; at once %d, %v", b[:i], b[i:], s1, ok1, s, ok)
			}
		}
	}
	edges := []byte{0, 'a', 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xec, 0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xff}
	for a := range 256 {
		check([]byte{byte(a)})
		for b := range 256 {
			check([]byte{byte(a), byte(b)})
			if a < 0xc0 {
				continue // a ends its rune or is wrong, so the pairs have what may follow
			}
			for _, c := range edges {
				check([]byte{byte(a), byte(b), c})
			}
		}
	}
	edges = []byte{0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc2, 0xe0, 0xed, 0xf0, 0xf1, 0xf4, 0xf5}
	for _, a := range edges {
		for _, b := range edges {
			for _, c := range edges {
				for _, d := range edges {
					check([]byte{a, b, c, d})
				}
			}
		}
	}
}

// TestManyFrames checks the limit on the buffer of an open message, and that decoding its frames
// takes time linear in their number, not quadratic.
func TestManyFrames(t *testing.T) {
	const limit = 64 << 10
	for name, piece := range map[string][]byte{
		"empty frames":  stream(0x00, ""),
		"single bytes":  stream(0x00, "a"),
		"pings between": stream(0x89, strings.Repeat("x", 125)),
	} {
		d := decoder{limit: limit, server: true}
		in := stream(0x01, "")
		if _, f := d.next(in); f != 0 {
			t.Fatal(name, f)
		}
		for {
			in = append(in, piece...)
			e, f := d.next(in)
			if f == faultTooMany {
				break
			}
			if f != 0 || e.used != 0 {
				t.Fatalf("%s: %+v, %v", name, e, f)
			}
			if e.op != opContinuation {
				if e, f = d.next(in); e.op != opContinuation || f != 0 {
					t.Fatalf("%s: a second event %+v, %v", name, e, f)
				}
			}
			if d.at != len(in) {
				t.Fatalf("%s: %d of %d bytes are served", name, d.at, len(in))
			}
		}
		if most := rawTimes*limit + rawExtra; len(in) <= most || len(in) > most+len(piece) {
			t.Errorf("%s: refused at %d bytes, want over %d", name, len(in), most)
		}
		if f := faultTooMany.code(); f != PolicyViolation {
			t.Errorf("%s: code %v", name, f)
		}
	}
}

// TestLongFrames splits texts whose frames have each size of head, after another frame, so that
// the head of the rest is written anew.
func TestLongFrames(t *testing.T) {
	for _, server := range []bool{true, false} {
		for _, n := range sizes {
			s := &frames{c: config{limit: 100_000, server: server}, random: rand.New(rand.NewPCG(1, 1))}
			text := []byte(strings.Repeat("κόσμε ", n/8+1)[:n/2*2])
			s.add(0x01, []byte("é"))
			s.add(0x00, bytes.ToValidUTF8(text, []byte("??")))
			s.add(0x80, bytes.ToValidUTF8(text[:n/5], nil))
			want := readWhole(s.bytes, s.c)
			if len(want.events) != 1 {
				t.Fatalf("%d bytes: the reference reads %d events", n, len(want.events))
			}
			alone := &frames{c: s.c, random: s.random}
			alone.add(0x82, make([]byte, n))
			if got := readNeeded(t, alone.bytes, s.c); len(got.events) != 1 {
				t.Errorf("server %v: %d bytes and no more: %d events, code %d", server, n, len(got.events), got.code)
			}
			if got := readNeeded(t, s.bytes, s.c); !got.equal(want) {
				t.Errorf("server %v: %d bytes, as many as are needed: %d events, code %d", server, n, len(got.events), got.code)
			}
			for _, piece := range []byte{100, 255} {
				if got := readSplit(t, s.bytes, s.c, []byte{piece}); !got.equal(want) {
					t.Errorf("server %v: %d bytes in pieces of %d: %d events, code %d", server, n, piece, len(got.events), got.code)
				}
			}
		}
	}
}

// TestState checks that every state survives a round trip through its 64 bits, together with the
// caller's bits.
func TestState(t *testing.T) {
	for _, at := range []int{0, 1, 1 << 20, rawMost} {
		for o := openNone; o <= openCompressedData; o++ {
			for w := withinNothing; w <= withinNext; w++ {
				for _, window := range []uint8{0, leastWindow, mostWindow} {
					for _, own := range []uint32{0, 1, 1<<(64-stateOwn) - 1} {
						for _, closed := range []bool{false, true} {
							d := decoder{at: at, open: o, within: w, window: window, own: own, closed: closed}
							var back decoder
							if back.load(d.state()); back != d || d.state()>>stateOwn != uint64(own) {
								t.Fatalf("%+v became %+v", d, back)
							}
						}
					}
				}
			}
		}
	}
	if (&decoder{}).state() != 0 {
		t.Error("the state of a new connection is not zero")
	}
}

// TestMutatedFrames damages valid streams: none may crash the decoder, and each ends with the
// reference's code. HONE_TEST_FRAMES is how many places to damage.
func TestMutatedFrames(t *testing.T) {
	total := 10_000
	if given := os.Getenv("HONE_TEST_FRAMES"); given != "" {
		var err error
		if total, err = strconv.Atoi(given); err != nil {
			t.Fatal(err)
		}
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 2))
	codes := make(map[Code]int)
	places, streams := 0, 0
	for places < total {
		c := randomConfig(random)
		stream, n := mutate(random, randomStream(random, c))
		places, streams = places+n, streams+1
		want := readWhole(stream, c)
		sizes := []byte{byte(random.IntN(1 << random.IntN(9)))}
		if got := readSplit(t, stream, c, sizes); !got.equal(want) {
			t.Fatalf("read %v\nthe reference %v\nof %x with %+v and pieces %v", got, want, stream, c, sizes)
		}
		codes[want.code]++
	}
	t.Logf("damaged in %d places: %d streams, by close code %v", places, streams, codes)
}

// FuzzDecoder checks that any bytes, split anywhere, give the same events as the reference.
func FuzzDecoder(f *testing.F) {
	random := rand.New(rand.NewPCG(1, 1))
	for mode := range byte(32) {
		f.Add(randomStream(random, modeConfig(mode)), []byte{mode}, mode)
		damaged, _ := mutate(random, randomStream(random, modeConfig(mode)))
		f.Add(damaged, []byte{0, mode}, mode)
	}
	f.Fuzz(func(t *testing.T, stream, sizes []byte, mode byte) {
		compare(t, stream, modeConfig(mode), append(sizes, 5))
	})
}

// modeConfig returns one of 32 ways to read a stream.
func modeConfig(mode byte) config {
	return config{
		limit:  []int{10, 125, 1000, 70000}[mode&3],
		server: mode&4 == 0,
		window: []uint8{0, 15, 9, 0}[mode>>3&3],
	}
}

// FuzzText compares text validation with package utf8.
func FuzzText(f *testing.F) {
	for _, w := range words {
		f.Add([]byte(w+"a"+w), 1)
	}
	f.Fuzz(func(t *testing.T, text []byte, cut int) {
		cut = min(max(cut, 0), len(text))
		s, ok := textWhole.validate(text[:cut])
		if ok != couldBeText(text[:cut]) {
			t.Fatalf("%x: %v", text[:cut], ok)
		}
		if !ok {
			return
		}
		if s, ok = s.validate(text[cut:]); ok != couldBeText(text) || ok && (s == textWhole) != utf8.Valid(text) {
			t.Fatalf("%x and %x: %d, %v", text[:cut], text[cut:], s, ok)
		}
	})
}
