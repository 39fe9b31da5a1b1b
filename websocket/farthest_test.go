package websocket

import "testing"

// bitReader reads DEFLATE's bits (RFC 1951 §3.1.1).
type bitReader struct {
	t   *testing.T
	p   []byte
	bit int
}

func (r *bitReader) one() int {
	if r.bit/8 >= len(r.p) {
		r.t.Fatal("a compressed message is truncated")
	}
	b := int(r.p[r.bit/8]>>(r.bit%8)) & 1
	r.bit++
	return b
}

func (r *bitReader) number(bits int) (n int) {
	for i := range bits {
		n |= r.one() << i
	}
	return n
}

// huffman is a code as counts per length and the symbols in order (RFC 1951 §3.2.2).
type huffman struct {
	counts  [16]int
	symbols []int
}

func newHuffman(lengths []int) (h huffman) {
	for n := 1; n <= 15; n++ {
		for symbol, length := range lengths {
			if length == n {
				h.counts[n]++
				h.symbols = append(h.symbols, symbol)
			}
		}
	}
	return h
}

func (r *bitReader) symbol(h huffman) int {
	code, first, index := 0, 0, 0
	for n := 1; n <= 15; n++ {
		code |= r.one()
		if code-first < h.counts[n] {
			return h.symbols[index+code-first]
		}
		index += h.counts[n]
		first = (first + h.counts[n]) << 1
		code <<= 1
	}
	r.t.Fatal("a compressed message has an invalid code")
	return 0
}

// dynamic reads the code tables at the beginning of a block (RFC 1951 §3.2.7).
func (r *bitReader) dynamic() (literals, distances huffman) {
	n, d, k := r.number(5)+257, r.number(5)+1, r.number(4)+4
	var sizes [19]int
	for i := range k {
		sizes[[...]int{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}[i]] = r.number(3)
	}
	code := newHuffman(sizes[:])
	var lengths []int
	for len(lengths) < n+d {
		length, times := 0, 1
		switch s := r.symbol(code); s {
		case 16:
			length, times = lengths[len(lengths)-1], 3+r.number(2)
		case 17:
			times = 3 + r.number(3)
		case 18:
			times = 11 + r.number(7)
		default:
			length = s
		}
		for range times {
			lengths = append(lengths, length)
		}
	}
	return newHuffman(lengths[:n]), newHuffman(lengths[n:])
}

// farthest is how far back a compressed message's references go.
func farthest(t *testing.T, payload []byte) (most int) {
	r := &bitReader{t: t, p: append(payload[:len(payload):len(payload)], flushed...)}
	for r.bit < 8*len(r.p) {
		if r.one() == 1 {
			t.Fatal("a final block in a message")
		}
		var literals, distances huffman
		switch r.number(2) {
		case 0:
			r.bit = (r.bit + 7) / 8 * 8
			n := r.number(16)
			r.bit += 16 + 8*n
			continue
		case 1:
			var lengths [288]int
			for i := range lengths {
				lengths[i] = 8
				if i >= 144 && i < 256 {
					lengths[i] = 9
				} else if i >= 256 && i < 280 {
					lengths[i] = 7
				}
			}
			literals, distances = newHuffman(lengths[:]), newHuffman([]int{5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5})
		default:
			literals, distances = r.dynamic()
		}
		for {
			s := r.symbol(literals)
			if s == 256 {
				break
			}
			if s < 256 {
				continue
			}
			if s >= 265 && s < 285 {
				r.number((s - 261) / 4)
			}
			d := r.symbol(distances)
			if d >= 4 {
				extra := d/2 - 1
				d = (2+d%2)<<extra + r.number(extra)
			}
			most = max(most, d+1)
		}
	}
	return most
}
