package websocket

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

func BenchmarkMask(b *testing.B) {
	for _, n := range []int{16, 125, 1 << 10, 64 << 10} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := make([]byte, n)
			b.SetBytes(int64(n))
			for b.Loop() {
				mask(p, 0x3d21fa37)
			}
		})
	}
}

// benchText is n bytes of text.
func benchText(n int) []byte { return []byte(strings.Repeat("a message of sixteen", n/20+1)[:n]) }

// pipelined are messages from a client that does not wait for answers.
func pipelined(messages, n int, first byte) []byte {
	var in []byte
	for i := range messages {
		in = appendMaskedWith(in, uint32(i)*0x9E3779B9, first, benchText(n))
	}
	return in
}

// BenchmarkDecode is a visit with 16 messages, from one 64-bit state to the next. ns/message is
// the time per message, including a copy of the input.
func BenchmarkDecode(b *testing.B) {
	for _, test := range []struct {
		name  string
		n     int
		first byte
	}{{"text/32", 32, 0x81}, {"text/64", 64, 0x81}, {"binary/64", 64, 0x82}, {"text/1024", 1024, 0x81}} {
		b.Run(test.name, func(b *testing.B) {
			const messages = 16
			stream := pipelined(messages, test.n, test.first)
			in := make([]byte, len(stream))
			var state uint64
			b.ReportAllocs()
			b.SetBytes(int64(len(stream)))
			for b.Loop() {
				copy(in, stream)
				d := decoder{limit: 64 << 10, server: true}
				d.load(state)
				used, count := 0, 0
				for {
					e, f := d.next(in[used:])
					if f != 0 {
						b.Fatal(f)
					}
					used += e.used
					if e.op == opContinuation {
						break
					}
					count++
				}
				if state = d.state(); count != messages || used != len(in) {
					b.Fatal(count, used)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/messages, "ns/message")
		})
	}
}

// BenchmarkFragments is a message of 64 KiB in frames of 64 bytes, one per visit: the cost of
// decoding a message that grows.
func BenchmarkFragments(b *testing.B) {
	for _, total := range []int{16 << 10, 64 << 10, 256 << 10} {
		b.Run(fmt.Sprint(total), func(b *testing.B) {
			const piece = 64
			var stream []byte
			for at := 0; at < total; at += piece {
				first := byte(0)
				if at == 0 {
					first = 1
				}
				if at+piece == total {
					first |= finBit
				}
				stream = appendMaskedWith(stream, 0x3d21fa37, first, benchText(piece))
			}
			in := make([]byte, len(stream))
			b.ReportAllocs()
			b.SetBytes(int64(total))
			for b.Loop() {
				copy(in, stream)
				var state uint64
				for end := 1; ; {
					d := decoder{limit: total, server: true}
					d.load(state)
					e, f := d.next(in[:end])
					if f != 0 {
						b.Fatal(f)
					}
					if e.op != opContinuation {
						break
					}
					state, end = d.state(), min(len(in), end+piece+6)
				}
			}
		})
	}
}

func BenchmarkValidate(b *testing.B) {
	for name, text := range map[string]string{"ascii": string(benchText(1024)), "mixed": strings.Repeat("κόσμε ", 100)[:1024]} {
		b.Run(name, func(b *testing.B) {
			p := bytes.ToValidUTF8([]byte(text), nil)
			b.SetBytes(int64(len(p)))
			for b.Loop() {
				if _, ok := textWhole.validate(p); !ok || !utf8.Valid(p) {
					b.Fatal("not valid")
				}
			}
		})
	}
}

// BenchmarkAppend builds a server's answer after its head, and a client's frame.
func BenchmarkAppend(b *testing.B) {
	dst, text := make([]byte, 0, 4096), benchText(64)
	b.Run("server", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			dst = beginFrame(dst[:0], 0)
			body := len(dst)
			dst = endFrame(append(dst, text...), 0, body, 0x81)
		}
	})
	b.Run("client", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			dst = appendMasked(dst[:0], 0x81, text)
		}
	})
}

// BenchmarkCompression compresses and decompresses 1 KiB of text, and decompresses a
// decompression bomb.
func BenchmarkCompression(b *testing.B) {
	c := &Compression{}
	random := rand.New(rand.NewPCG(1, 1))
	var text []byte
	for len(text) < 1024 {
		text = append(text, words[random.IntN(len(words))]...)
	}
	dst := make([]byte, 0, 128<<10)
	payload := c.deflate(nil, mostWindow, text)
	bomb := c.deflate(nil, mostWindow, make([]byte, 10<<20))
	b.Run("deflate", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			dst = c.deflate(dst[:0], mostWindow, text)
		}
	})
	b.Run("inflate", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, f := c.inflate(dst[:0], payload, 64<<10, true); f != 0 {
				b.Fatal(f)
			}
		}
	})
	b.Run("bomb", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, f := c.inflate(dst[:0], bomb, 64<<10, true); f != faultTooBig {
				b.Fatal(f)
			}
		}
	})
}
