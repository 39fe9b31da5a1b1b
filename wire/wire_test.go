package wire_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hone-go/hone/wire"
)

const limit = 64 << 10

var commands = []wire.Command{wire.Conn, wire.Submit, wire.Deliver, wire.ConnAck, wire.SubmitAck}

// unhex reads hexadecimal digits with any spacing.
func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatalf("invalid hex in the test: %v", err)
	}
	return b
}

func isAck(c wire.Command) bool { return c == wire.ConnAck || c == wire.SubmitAck }

// same reports whether two packets are equal; no content equals empty content.
func same(a, b wire.Packet) bool {
	return a.Command == b.Command && a.Result == b.Result && a.ID == b.ID && bytes.Equal(a.Content, b.Content)
}

// carried returns what is left of p after encoding and decoding.
func carried(p wire.Packet) wire.Packet {
	if !isAck(p.Command) {
		p.Result = wire.OK
	}
	return p
}

// mustPanic runs f and checks that it panics with the package's name as prefix.
func mustPanic(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if s, ok := recover().(string); !ok || !strings.HasPrefix(s, "wire: ") {
			t.Errorf("%s: want a panic that begins with \"wire: \", got %q", what, s)
		}
	}()
	f()
}

func TestFrame(t *testing.T) {
	tests := []struct {
		name    string
		in      string
		limit   int
		payload string
		need    int
		err     error
	}{
		{name: "nothing", in: "", limit: 100, need: 4},
		{name: "one byte of length", in: "00", limit: 100, need: 3},
		{name: "first length byte already too large, length incomplete", in: "ff ff ff", limit: 100, need: 1},
		{name: "length alone", in: "00000005", limit: 100, need: 1},
		{name: "all but one byte", in: "00000008 01 02 03", limit: 100, need: 1},
		{name: "length alone of a longer frame", in: "00000064", limit: 100, need: 96},
		{name: "shortest frame", in: "00000005 07", limit: 100, payload: "07"},
		{name: "a frame and the next one's start", in: "00000006 0102 00", limit: 100, payload: "0102"},
		{name: "exactly the limit", in: "00000006 0102", limit: 6, payload: "0102"},
		{name: "one over the limit", in: "00000006 0102", limit: 5, err: wire.TooLarge},
		{name: "over the limit, nothing behind the length", in: "00000006", limit: 5, err: wire.TooLarge},
		{name: "limit under the shortest frame", in: "00000005 07", limit: 4, err: wire.TooLarge},
		{name: "length 4 is malformed first, whatever the limit", in: "00000004", limit: 1, err: wire.Malformed},
		{name: "largest limit, length 2^31", in: "80000000", limit: math.MaxInt32, err: wire.TooLarge},
		{name: "largest limit, length 2^31-1", in: "7fffffff", limit: math.MaxInt32, need: math.MaxInt32 - 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := unhex(t, tt.in)
			payload, need, err := wire.Frame(in, tt.limit)
			if !bytes.Equal(payload, unhex(t, tt.payload)) || need != tt.need || err != tt.err {
				t.Errorf("Frame(% x, %d) = % x, %d, %v; want %s, %d, %v", in, tt.limit, payload, need, err, tt.payload, tt.need, tt.err)
			}
		})
	}
}

func TestFramePayloadEndsAtItsFrame(t *testing.T) {
	in := unhex(t, "00000006 0102 00000005 03")
	payload, _, err := wire.Frame(in, limit)
	if err != nil {
		t.Fatal(err)
	}
	_ = append(payload, 0xee)
	if in[6] != 0 {
		t.Error("appending to a payload wrote into the next frame")
	}
	payload[0] = 0x99
	if in[4] != 0x99 {
		t.Error("the payload is a copy; it must alias the input")
	}
}

func TestFrameLimitMustBePositive(t *testing.T) {
	for _, bad := range []int{0, -1, math.MinInt} {
		mustPanic(t, fmt.Sprintf("Frame with limit %d", bad), func() { wire.Frame(nil, bad) })
	}
}

// The decoder published with the article reads the length as a signed number, subtracts
// 4, and allocates a slice for the rest: these four bytes crash the whole process, or
// make it allocate a gibibyte. Here they are plain errors, whatever follows them, and
// allocate nothing.
func TestArticleDecoderDiesOnFourBytes(t *testing.T) {
	tests := []struct {
		length uint32
		want   wire.Result
	}{
		{0x00000000, wire.Malformed},
		{0x00000001, wire.Malformed},
		{0x00000002, wire.Malformed},
		{0x00000003, wire.Malformed},
		{0x00000004, wire.Malformed},
		{0x40000000, wire.TooLarge},
		{0x7fffffff, wire.TooLarge},
		{0x80000000, wire.TooLarge},
		{0xffffffff, wire.TooLarge},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("0x%08x", tt.length), func(t *testing.T) {
			alone := []byte{byte(tt.length >> 24), byte(tt.length >> 16), byte(tt.length >> 8), byte(tt.length)}
			for _, in := range [][]byte{
				alone,
				append(slices.Clone(alone), 0),
				append(slices.Clone(alone), make([]byte, 2*limit)...),
				append(slices.Clone(alone), wire.Append(nil, wire.Packet{Command: wire.Submit})...),
			} {
				payload, need, err := wire.Frame(in, limit)
				if payload != nil || need != 0 || err != tt.want {
					t.Errorf("with %d bytes: payload %v, need %d, error %v; want %v", len(in), payload, need, err, tt.want)
				}
				if n := testing.AllocsPerRun(100, func() { wire.Frame(in, limit) }); n != 0 {
					t.Errorf("with %d bytes: %v allocations for a refused length", len(in), n)
				}
			}
		})
	}
}

func TestParse(t *testing.T) {
	const id = "0102030405060708"
	tests := []struct {
		name string
		in   string
		want wire.Packet
		err  error
	}{
		{name: "Conn", in: "01" + id + "aabb", want: wire.Packet{Command: wire.Conn, ID: 0x0102030405060708, Content: []byte{0xaa, 0xbb}}},
		{name: "Submit", in: "02" + id + "cc", want: wire.Packet{Command: wire.Submit, ID: 0x0102030405060708, Content: []byte{0xcc}}},
		{name: "Submit without content", in: "02" + id, want: wire.Packet{Command: wire.Submit, ID: 0x0102030405060708}},
		{name: "Deliver", in: "03 ffffffffffffffff dd", want: wire.Packet{Command: wire.Deliver, ID: math.MaxUint64, Content: []byte{0xdd}}},
		{name: "ConnAck", in: "81" + id + "00", want: wire.Packet{Command: wire.ConnAck, ID: 0x0102030405060708}},
		{name: "SubmitAck", in: "82" + id + "05 ee", want: wire.Packet{Command: wire.SubmitAck, Result: wire.Overloaded, ID: 0x0102030405060708, Content: []byte{0xee}}},
		{name: "SubmitAck with a code unknown here", in: "82" + id + "c8", want: wire.Packet{Command: wire.SubmitAck, Result: 200, ID: 0x0102030405060708}},

		{name: "nothing", in: "", err: wire.Malformed},
		{name: "command alone", in: "02", err: wire.Malformed},
		{name: "Conn with seven bytes of id", in: "01 01020304050607", err: wire.Malformed},
		{name: "Submit with seven bytes of id", in: "02 01020304050607", err: wire.Malformed},
		{name: "Deliver with seven bytes of id", in: "03 01020304050607", err: wire.Malformed},
		{name: "ConnAck without result", in: "81" + id, err: wire.Malformed},
		{name: "SubmitAck without result", in: "82" + id, err: wire.Malformed},
		{name: "unknown and short", in: "00", err: wire.UnknownCommand},
		{name: "unknown and long", in: "04" + id + "00", err: wire.UnknownCommand},
		{name: "below the acks", in: "80" + id + "00", err: wire.UnknownCommand},
		{name: "between the acks' ends", in: "83" + id + "00", err: wire.UnknownCommand},
		{name: "0xff", in: "ff" + id + "00", err: wire.UnknownCommand},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := wire.Parse(unhex(t, tt.in))
			if !same(got, tt.want) || err != tt.err {
				t.Errorf("Parse(%s) = %+v, %v; want %+v, %v", tt.in, got, err, tt.want, tt.err)
			}
			if err == nil && got.Content == nil {
				t.Error("the content of a parsed packet must not be nil")
			}
		})
	}
}

// Of all first bytes with a long enough body, exactly five are commands.
func TestEveryCommandByte(t *testing.T) {
	want := map[byte]wire.Command{0x01: wire.Conn, 0x02: wire.Submit, 0x03: wire.Deliver, 0x81: wire.ConnAck, 0x82: wire.SubmitAck}
	for b := range 256 {
		got, err := wire.Parse(append([]byte{byte(b)}, make([]byte, 9)...))
		c, known := want[byte(b)]
		if known && (got.Command != c || err != nil) || !known && err != wire.UnknownCommand {
			t.Errorf("command byte 0x%02x: got %v, %v", b, got.Command, err)
		}
	}
}

func TestAppend(t *testing.T) {
	tests := []struct {
		packet wire.Packet
		want   string
	}{
		{wire.Packet{Command: wire.Conn, ID: 1}, "0000000d 01 0000000000000001"},
		{wire.Packet{Command: wire.Submit, ID: 0x0102030405060708, Content: []byte("hi"), Result: 9}, "0000000f 02 0102030405060708 6869"},
		{wire.Packet{Command: wire.Deliver, ID: math.MaxUint64, Content: []byte("!")}, "0000000e 03 ffffffffffffffff 21"},
		{wire.Packet{Command: wire.ConnAck, ID: 1}, "0000000e 81 0000000000000001 00"},
		{wire.Packet{Command: wire.ConnAck, Result: wire.TooLarge}, "0000000e 81 0000000000000000 03"},
		{wire.Packet{Command: wire.SubmitAck, ID: 2, Content: []byte("ok")}, "00000010 82 0000000000000002 00 6f6b"},
		{wire.Packet{Command: wire.SubmitAck, ID: 2, Result: 200, Content: []byte("ok")}, "00000010 82 0000000000000002 c8 6f6b"},
	}
	for _, tt := range tests {
		got := wire.Append([]byte("before"), tt.packet)
		if !bytes.Equal(got, append([]byte("before"), unhex(t, tt.want)...)) {
			t.Errorf("Append(%+v) = % x; want %s", tt.packet, got[min(6, len(got)):], tt.want)
		}
	}
}

// One growth costs what slices.Grow allocates: once, and once more under -race.
func TestAppendGrowsOnce(t *testing.T) {
	p := wire.Packet{Command: wire.SubmitAck, Content: make([]byte, 1000)}
	var frame []byte
	want := testing.AllocsPerRun(100, func() { frame = slices.Grow([]byte(nil), 1014) })
	if got := testing.AllocsPerRun(100, func() { frame = wire.Append(nil, p) }); got != want {
		t.Errorf("Append to a nil slice allocates %v times, one growth %v times", got, want)
	}
	_ = frame
}

// BeginAck and EndAck around a growing content write what Append writes at once.
func TestBeginAckEndAck(t *testing.T) {
	answers := map[wire.Command]wire.Command{wire.Conn: wire.ConnAck, wire.Submit: wire.SubmitAck}
	rapid.Check(t, func(t *rapid.T) {
		request := rapid.SampledFrom([]wire.Command{wire.Conn, wire.Submit}).Draw(t, "request")
		id := rapid.Uint64().Draw(t, "id")
		result := wire.Result(rapid.Byte().Draw(t, "result"))
		before := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "before")
		content := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "content")
		spare := rapid.IntRange(0, 64).Draw(t, "spare")

		want := wire.Append(slices.Clone(before), wire.Packet{Command: answers[request], Result: result, ID: id, Content: content})

		got := slices.Grow(slices.Clone(before), spare)
		got = wire.BeginAck(got, request, id)
		got = append(got, content...)
		got = wire.EndAck(got, len(before), result)
		if !bytes.Equal(got, want) {
			t.Fatalf("in two halves % x, at once % x", got, want)
		}
	})
}

func TestEndAckAfterCuttingTheContentBack(t *testing.T) {
	dst := wire.BeginAck(nil, wire.Submit, 7)
	body := len(dst)
	dst = append(dst, "half of a reply"...)
	dst = wire.EndAck(dst[:body], 0, wire.Failed)
	if want := unhex(t, "0000000e 82 0000000000000007 01"); !bytes.Equal(dst, want) {
		t.Errorf("got % x, want % x", dst, want)
	}
}

func TestMisusePanics(t *testing.T) {
	begun := wire.BeginAck(nil, wire.Submit, 1)
	for _, c := range []wire.Command{0, 0x04, 0x7f, 0x80, 0x83, 0xff} {
		mustPanic(t, fmt.Sprintf("Append of command %v", c), func() { wire.Append(nil, wire.Packet{Command: c}) })
		mustPanic(t, fmt.Sprintf("Split of command %v", c), func() { wire.Split(nil, &wire.Packet{Command: c}) })
	}
	for _, c := range []wire.Command{0, wire.Deliver, wire.ConnAck, wire.SubmitAck, 0xff} {
		mustPanic(t, fmt.Sprintf("BeginAck for %v", c), func() { wire.BeginAck(nil, c, 1) })
	}
	for _, start := range []int{-1, 1, len(begun), len(begun) + 1, math.MaxInt, math.MinInt} {
		mustPanic(t, fmt.Sprintf("EndAck at %d", start), func() { wire.EndAck(begun, start, wire.OK) })
	}
}

func anyPacket(t *rapid.T) wire.Packet {
	return wire.Packet{
		Command: rapid.SampledFrom(commands).Draw(t, "command"),
		Result:  wire.Result(rapid.Byte().Draw(t, "result")),
		ID:      rapid.Uint64().Draw(t, "id"),
		Content: rapid.SliceOfN(rapid.Byte(), 0, 500).Draw(t, "content"),
	}
}

func TestPacketRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyPacket(t)
		stream := wire.Append(nil, p)
		before := []byte("before")
		head, content := wire.Split(before, &p)
		if whole := slices.Concat(head, content); !bytes.Equal(whole, slices.Concat(before, stream)) {
			t.Fatalf("split % x | % x, whole % x", head, content, stream)
		}
		payload, need, err := wire.Frame(stream, len(stream))
		if err != nil || need != 0 || wire.HeaderSize+len(payload) != len(stream) {
			t.Fatalf("Frame of one whole frame of %d bytes: %d bytes of payload, need %d, %v", len(stream), len(payload), need, err)
		}
		got, err := wire.Parse(payload)
		if err != nil || !same(got, carried(p)) {
			t.Fatalf("sent %+v, got %+v, %v", p, got, err)
		}
	})
}

func TestStreamRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sent := rapid.SliceOfN(rapid.Custom(anyPacket), 0, 8).Draw(t, "packets")
		var stream []byte
		for _, p := range sent {
			stream = wire.Append(stream, p)
		}
		for i, p := range sent {
			payload, need, err := wire.Frame(stream, limit)
			if err != nil || need != 0 {
				t.Fatalf("packet %d: need %d, %v", i, need, err)
			}
			stream = stream[wire.HeaderSize+len(payload):]
			if got, err := wire.Parse(payload); err != nil || !same(got, carried(p)) {
				t.Fatalf("packet %d: sent %+v, got %+v, %v", i, p, got, err)
			}
		}
		if len(stream) != 0 {
			t.Fatalf("%d bytes left over", len(stream))
		}
	})
}

func TestResultIsAnError(t *testing.T) {
	if err := fmt.Errorf("submit: %w", wire.TooLarge); !errors.Is(err, wire.TooLarge) || errors.Is(err, wire.TooSlow) {
		t.Errorf("errors.Is does not tell results apart in %v", err)
	}
	texts := map[string]wire.Result{}
	for i := range 256 {
		r := wire.Result(i)
		text := r.Error()
		if !strings.HasPrefix(text, "wire: ") {
			t.Errorf("result %d prints as %q", i, text)
		}
		if other, twice := texts[text]; twice {
			t.Errorf("results %d and %d both print as %q", other, i, text)
		}
		texts[text] = r
		if r > wire.Internal && text != "wire: result "+strconv.Itoa(i) {
			t.Errorf("unknown result %d prints as %q", i, text)
		}
	}
}

func TestCommandString(t *testing.T) {
	for c, want := range map[wire.Command]string{
		wire.Conn: "Conn", wire.Submit: "Submit", wire.Deliver: "Deliver", wire.ConnAck: "ConnAck", wire.SubmitAck: "SubmitAck",
		0: "0x00", 0x7f: "0x7f", 0x80: "0x80", 0xff: "0xff",
	} {
		if got := c.String(); got != want {
			t.Errorf("Command(%d).String() = %q, want %q", uint8(c), got, want)
		}
	}
}
