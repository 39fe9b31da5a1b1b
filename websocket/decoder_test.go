package websocket

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hone-go/hone/internal/testrun"
)

// frames builds a stream of frames.
type frames struct {
	c      config
	random *rand.Rand
	bytes  []byte
}

func (s *frames) add(first byte, payload []byte) {
	if s.c.server {
		s.bytes = appendMaskedWith(s.bytes, s.random.Uint32(), first, payload)
	} else {
		s.bytes = appendFrame(s.bytes, first, payload)
	}
}

// words are the building blocks of messages: characters of every length, and the limits of
// UTF-8's ranges.
var words = []string{"", "a", "hello", "é", "߿", "ࠀ", "퟿", "", "￿", "𐀀", "\U000FFFFF", "\U0010FFFF", "κόσμε", "日本語"}

// message appends a message in several frames, with control frames between them.
func (s *frames) message(kind Kind, compressed bool, payload []byte) {
	first := byte(kind)
	if compressed {
		first |= compressedBit
	}
	for {
		n := len(payload)
		if s.random.IntN(3) > 0 {
			n = s.random.IntN(n + 1)
		}
		if n == len(payload) && s.random.IntN(4) > 0 {
			s.add(first|finBit, payload)
			return
		}
		s.add(first, payload[:n])
		first, payload = 0, payload[n:]
		for s.random.IntN(3) == 0 {
			s.add([]byte{0x89, 0x8a}[s.random.IntN(2)], []byte(words[s.random.IntN(len(words))]))
		}
	}
}

// randomStream returns messages and control frames, nearly all of them valid: a message may be
// one byte too long.
func randomStream(random *rand.Rand, c config) []byte {
	s := &frames{c: c, random: random}
	for range 1 + random.IntN(4) {
		var text []byte
		for range random.IntN(12) {
			text = append(text, words[random.IntN(len(words))]...)
		}
		if random.IntN(8) == 0 {
			text = bytes.Repeat(text, random.IntN(200))
		}
		most := c.limit
		if random.IntN(20) == 0 {
			most++
		}
		text = text[:min(len(text), most)]
		switch random.IntN(6) {
		case 0:
			s.add(0x89, text[:min(len(text), 125)])
		case 1:
			s.add(0x8a, nil)
		case 2:
			s.message(Binary, false, text)
		case 3:
			s.message(Kind(1+random.IntN(2)), c.window > 0, text)
		default:
			s.message(Text, false, []byte(string(bytes.ToValidUTF8(text, nil))))
		}
	}
	if random.IntN(3) == 0 {
		s.add(0x88, appendClosePayload(nil, []Code{0, 1000, 1001, 4999}[random.IntN(4)], "grund é"))
		s.add(0x81, []byte("too late"))
	}
	return s.bytes
}

// mutate damages a stream in a few places, and returns how many.
func mutate(random *rand.Rand, stream []byte) (damaged []byte, places int) {
	stream = bytes.Clone(stream)
	for range 1 + random.IntN(3) {
		if len(stream) == 0 {
			break
		}
		places++
		i := random.IntN(len(stream))
		switch random.IntN(5) {
		case 0:
			stream[i] ^= 1 << random.IntN(8)
		case 1:
			stream[i] = byte(random.Uint32())
		case 2:
			stream = slices.Delete(stream, i, min(len(stream), i+1+random.IntN(4)))
		case 3:
			stream = slices.Insert(stream, i, []byte{0x81, 0x7f, 0xff, 0, 0xc1, 0xfe, 0x80}[random.IntN(7)])
		default:
			stream = stream[:i]
		}
	}
	return stream, places
}

// compare reads the stream in every way, and wants the reference's history each time.
func compare(t *testing.T, stream []byte, c config, sizes []byte) history {
	t.Helper()
	want := readWhole(stream, c)
	for name, got := range map[string]history{
		"at once":        readSplit(t, stream, c, nil),
		"in pieces":      readSplit(t, stream, c, sizes),
		"byte by byte":   readSplit(t, stream, c, []byte{0}),
		"what is needed": readNeeded(t, stream, c),
	} {
		if !got.equal(want) {
			t.Fatalf("%s: read %v\nthe reference %v\nof %x with %+v and pieces %v", name, got, want, stream, c, sizes)
		}
	}
	return want
}

func randomConfig(random *rand.Rand) config {
	return config{
		limit:  []int{10, 125, 1000, 70000}[random.IntN(4)],
		server: random.IntN(4) > 0,
		window: []uint8{0, 0, 9, 15}[random.IntN(4)],
	}
}

func TestRandomStreams(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	whole, faults := 0, make(map[Code]int)
	for i := range testrun.Sized(1000, 2000) {
		c := randomConfig(random)
		stream := randomStream(random, c)
		if i%2 == 0 {
			stream, _ = mutate(random, stream)
		}
		sizes := make([]byte, 1+random.IntN(5))
		for i := range sizes {
			sizes[i] = byte(random.IntN(1 << random.IntN(9)))
		}
		h := compare(t, stream, c, sizes)
		whole += len(h.events)
		faults[h.code]++
	}
	t.Logf("%d events, streams by code: %v", whole, faults)
	for _, code := range []Code{0, ProtocolError, InvalidPayload, MessageTooBig} {
		if faults[code] == 0 {
			t.Errorf("no stream ended with code %d", code)
		}
	}
}
