package codec

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/hone-go/hone/tool/load/traffic"
)

// decoded is the outcome of decoding a stream.
type decoded struct {
	answers []string // status, bytes of the body and whether it is the last, of each
	err     error
	held    int // the most bytes that had to be buffered
}

// decodeHTTP decodes a stream as a connection does, in pieces of the sizes that next returns, up
// to the first answer that is the last.
func decodeHTTP(t *httpTarget, stream []byte, next func() int) (d decoded) {
	c := t.Codec().(*httpCodec)
	for id := range uint64(64) {
		c.AppendRequest(nil, id+1, nil, nil)
	}
	var in []byte
	for ended := false; !ended; {
		n := min(next(), len(stream))
		in, stream = append(in, stream[:n]...), stream[n:]
		ended = len(stream) == 0
		for len(in) > 0 {
			var a Answer
			used, err := c.Decode(&a, in)
			if err != nil {
				d.err = err
				return d
			}
			in = in[used:]
			if a.ID != 0 {
				d.add(c, a)
			}
			if a.Last {
				return d
			}
			if used == 0 {
				break
			}
		}
		d.held = max(d.held, len(in))
	}
	var a Answer
	if _, d.err = c.Decode(&a, nil); a.ID != 0 {
		d.add(c, a)
	}
	return d
}

func (d *decoded) add(c *httpCodec, a Answer) {
	d.answers = append(d.answers, fmt.Sprintf("%d %d %v", a.Code, c.size, a.Last))
}

func whole(stream []byte) func() int { return func() int { return len(stream) } }

func one() int { return 1 }

func TestHTTPDecode(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	const chunked = ok + "Transfer-Encoding: chunked\r\n\r\n"
	for _, c := range []struct {
		stream string
		want   string // answers, then the kind of the error
	}{
		{"", ""},
		{ok + "Content-Length: 5\r\n\r\nhello", "200 5 false"},
		{ok + "content-LENGTH:5 \r\n\r\nhello" + ok + "Content-Length: 0\r\n\r\n", "200 5 false, 200 0 false"},
		{"HTTP/1.1 200\nContent-Length: 5\n\nhello", "200 5 false"},
		{"HTTP/1.1 404 \r\nContent-Length: 0\r\n\r\n", "404 0 false"},
		{ok + "\r\nhello", "200 5 true"},
		{"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n" + ok, "200 0 true"},
		{"HTTP/1.1 204 \r\nContent-Length: 5\r\n\r\n" + ok + "Content-Length: 0\r\n\r\n", "204 0 false, 200 0 false"},
		{"HTTP/1.1 304 \r\nTransfer-Encoding: chunked\r\n\r\n", "304 0 false"},
		{"HTTP/1.1 100 \r\n\r\nHTTP/1.1 103 \r\nLink: x\r\n\r\n" + ok + "Content-Length: 1\r\n\r\nx", "200 1 false"},
		{chunked + "5\r\nhello\r\n0\r\n\r\n", "200 5 false"},
		{chunked + "5;x=\"y\"\r\nhello\r\n00A \r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n", "200 15 false"},
		{chunked + "0\r\n\r\n" + chunked + "0\r\n\r\n", "200 0 false, 200 0 false"},
		{ok + "X: " + strings.Repeat("y", mostHead-100) + "\r\nContent-Length: 0\r\n\r\n", "200 0 false"},

		{ok + "X: " + strings.Repeat("y", mostHead) + "\r\n\r\n", "garbage"},
		{ok + "Content-Length: 5\r\n\r\nhell", "closed"},
		{chunked + "5\r\nhello\r\n0\r\n", "closed"},
		{ok + "Content-", "closed"},
		{"HTTP/1.1 20", ""},
		{"HTTP/2 200 OK\r\n\r\n", "garbage"},
		{"HTTP/1.2 200 OK\r\n\r\n", "garbage"},
		{"HTTP/1.1  200 OK\r\n\r\n", "garbage"},
		{"HTTP/1.1 2000 OK\r\n\r\n", "garbage"},
		{"HTTP/1.1 20\r\n\r\n", "garbage"},
		{"HTTP/1.1 2x0 OK\r\n\r\n", "garbage"},
		{"HTTP/1.1 099 OK\r\n\r\n", "garbage"},
		{"HTTP/1.1 101 \r\n\r\n", "garbage"},
		{"http/1.1 200 OK\r\n\r\n", "garbage"},
		{ok + "Content-Length : 5\r\n\r\n", "garbage"},
		{ok + " Content-Length: 5\r\n\r\n", "garbage"},
		{ok + "X: y\r\n folded\r\n\r\n", "garbage"},
		{ok + ": y\r\n\r\n", "garbage"},
		{ok + "none\r\n\r\n", "garbage"},
		{ok + "Content-Length: \r\n\r\n", "garbage"},
		{ok + "Content-Length: +5\r\n\r\n", "garbage"},
		{ok + "Content-Length: -5\r\n\r\n", "garbage"},
		{ok + "Content-Length: 5, 5\r\n\r\n", "garbage"},
		{ok + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", "garbage"},
		{ok + "Content-Length: 9999999999999999999999\r\n\r\n", "garbage"},
		{ok + "Content-Length: 1001\r\n\r\n", "garbage"},
		{ok + "Transfer-Encoding: gzip, chunked\r\n\r\n", "garbage"},
		{ok + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", "garbage"},
		{ok + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", "garbage"},
		{"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "garbage"},
		{ok + "\r\n" + strings.Repeat("y", 1001), "garbage"},
		{chunked + "\r\n", "garbage"},
		{chunked + "5\nhello\r\n0\r\n\r\n", "garbage"},
		{chunked + "5\r\r\nhello\r\n0\r\n\r\n", "garbage"},
		{chunked + "x\r\n", "garbage"},
		{chunked + "-1\r\n", "garbage"},
		{chunked + "fffffffffffffffff\r\n", "garbage"},
		{chunked + "8000000000000000\r\n", "garbage"},
		{chunked + "5\r\nhello!\r\n", "garbage"},
		{chunked + "5;" + strings.Repeat("x", mostChunkLine) + "\r\nhello\r\n0\r\n\r\n", "garbage"},
		{chunked + strings.Repeat("1;xxxxxxxxxxx\r\nx\r\n", 70), "garbage"},
		{chunked + "0\r\n\n", "garbage"},
		{chunked + "0\r\nno trailer\r\n\r\n", "garbage"},
	} {
		target := must[*httpTarget](t)(HTTP{URL: "http://h", AnswerLimit: 1000}.target())
		for name, next := range map[string]func() int{"at once": whole([]byte(c.stream)), "byte by byte": one} {
			d := decodeHTTP(target, []byte(c.stream), next)
			got := strings.Join(d.answers, ", ")
			if e := new(Error); errors.As(d.err, &e) {
				got = e.Kind.String()
				if e.Try == "" {
					t.Errorf("%v says nothing to try", e)
				}
			}
			if got != c.want {
				t.Errorf("%.100q %s: %s, %v, want %s", c.stream, name, got, d.err, c.want)
			}
		}
	}
	target := must[*httpTarget](t)(HTTP{URL: "http://h", Method: "HEAD"}.target())
	stream := []byte(strings.Repeat(ok+"Content-Length: 5\r\n\r\n", 2))
	if d := decodeHTTP(target, stream, whole(stream)); len(d.answers) != 2 || d.err != nil {
		t.Errorf("of HEAD: %+v", d)
	}
}

// A long body is not buffered.
func TestHTTPDecodeHoldsNothing(t *testing.T) {
	target := must[*httpTarget](t)(HTTP{URL: "http://h"}.target())
	const size = 10 << 20
	for name, stream := range map[string][]byte{
		"length":   append(fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", size), make([]byte, size)...),
		"till end": append([]byte("HTTP/1.1 200 OK\r\n\r\n"), make([]byte, size)...),
		"chunk":    slices.Concat(fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n", size), make([]byte, size), []byte("\r\n0\r\n\r\n")),
	} {
		d := decodeHTTP(target, stream, func() int { return 60_000 })
		if len(d.answers) != 1 || d.err != nil || !strings.Contains(d.answers[0], fmt.Sprint(size)) || d.held > 16 {
			t.Errorf("%s: %v, %v, held %d bytes", name, d.answers, d.err, d.held)
		}
	}
}

// usualAnswer is an answer of net/http's server.
const usualAnswer = "HTTP/1.1 200 OK\r\nDate: Sat, 21 Nov 2026 23:00:00 GMT\r\nContent-Type: text/plain; charset=utf-8\r\n" +
	"Content-Length: 13\r\nX-Request-Id: 0123456789abcdef\r\nVary: Accept-Encoding\r\nCache-Control: no-store\r\n\r\nHello, World!"

func BenchmarkHTTPDecode(b *testing.B) {
	t := must[*httpTarget](b)(HTTP{URL: "http://h"}.target())
	c := t.Codec()
	in, out := []byte(usualAnswer), []byte(nil)
	b.ReportAllocs()
	for b.Loop() {
		out = c.AppendRequest(out[:0], 1, nil, nil)
		var a Answer
		if used, err := c.Decode(&a, in); used != len(in) || err != nil || a.ID == 0 {
			b.Fatal(used, err)
		}
	}
}

// FuzzHTTPDecode compares the decoder with net/http: the same statuses and body lengths, however
// the stream is split. The decoder may refuse what net/http accepts, because it is stricter, but
// not the other way round, except for bytes in heads and chunks that no length depends on.
func FuzzHTTPDecode(f *testing.F) {
	const ok = "HTTP/1.1 200 OK\r\n"
	for _, seed := range []string{
		usualAnswer + usualAnswer, ok + "\r\nhello", "HTTP/1.0 200 OK\r\n\r\n",
		ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n\r\n" + usualAnswer,
		"HTTP/1.1 103 \r\n\r\n" + ok + "Content-Length: 0\r\n\r\n", "HTTP/1.1 204 \r\n\r\n" + usualAnswer,
		ok + "Connection: close\r\nContent-Length: 3\r\n\r\nabc", ok + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
		ok + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
	} {
		f.Add([]byte(seed), false, uint64(1))
		f.Add([]byte(seed), true, uint64(2))
	}
	plain := must[*httpTarget](f)(HTTP{URL: "http://h"}.target())
	head := must[*httpTarget](f)(HTTP{URL: "http://h", Method: "HEAD"}.target())
	f.Fuzz(func(t *testing.T, stream []byte, bodiless bool, seed uint64) {
		if len(stream) > mostHead {
			return
		}
		target, method := plain, http.MethodGet
		if bodiless {
			target, method = head, http.MethodHead
		}
		random := rand.New(rand.NewPCG(seed, 0))
		d := decodeHTTP(target, stream, whole(stream))
		for range 3 {
			cut := decodeHTTP(target, stream, func() int { return 1 + random.IntN(7) })
			if !slices.Equal(cut.answers, d.answers) || (cut.err == nil) != (d.err == nil) {
				t.Fatalf("cut: %v, %v; at once: %v, %v", cut.answers, cut.err, d.answers, d.err)
			}
		}
		compareWithNetHTTP(t, stream, method, d)
	})
}

func compareWithNetHTTP(t *testing.T, stream []byte, method string, d decoded) {
	in := bufio.NewReaderSize(bytes.NewReader(stream), 1<<20)
	for i := 0; ; i++ {
		want, last, err := readWithNetHTTP(in, method)
		if i < len(d.answers) {
			if err != nil {
				if lenient(stream) {
					return
				}
				t.Fatalf("answer %d is %s, to net/http %v", i, d.answers[i], err)
			}
			if d.answers[i] != want {
				t.Fatalf("answer %d is %s, to net/http %s", i, d.answers[i], want)
			}
			if last {
				return
			}
			continue
		}
		if err == nil && d.err == nil && i < 64 {
			t.Fatalf("answer %d is missing, to net/http it is %s", i, want)
		}
		return
	}
}

// A body is kept up to its limit, to the byte.
func TestHTTPKeepsTheBeginningOfABody(t *testing.T) {
	for _, wants := range []bool{true, false} {
		c := new(httpCodec)
		c.asked.Push(httpAsked{1, &httpRequest{wantsBody: wants}})
		body := bytes.Repeat([]byte("x"), traffic.MostBody)
		for _, piece := range [][]byte{body[:len(body)-1], []byte("yz"), []byte("z")} {
			c.keepBody(piece)
		}
		want := append(body[:len(body)-1], 'y')
		if !wants {
			want = nil
		}
		if !bytes.Equal(c.keptBody, want) {
			t.Errorf("wanted %v: %d bytes are kept, want %d", wants, len(c.keptBody), len(want))
		}
	}
}

// readWithNetHTTP reads one answer in the format of decoded.add.
func readWithNetHTTP(in *bufio.Reader, method string) (text string, last bool, err error) {
	for {
		r, err := http.ReadResponse(in, &http.Request{Method: method})
		if err != nil {
			return "", false, err
		}
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			return "", false, err
		}
		if r.StatusCode >= 200 || r.StatusCode == http.StatusSwitchingProtocols {
			return fmt.Sprintf("%d %d %v", r.StatusCode, n, r.Close), r.Close, nil
		}
	}
}

// lenient reports whether the stream contains something that only net/http checks: odd bytes in
// headers, chunk extensions, a trailer that is announced and not allowed.
func lenient(stream []byte) bool {
	odd := func(r rune) bool { return r < ' ' && r != '\r' && r != '\n' && r != '\t' || r >= 0x7f }
	return bytes.ContainsFunc(stream, odd) || oddNames(stream) ||
		bytes.Contains(bytes.ToLower(stream), []byte("trailer")) || bytes.Contains(bytes.ReplaceAll(stream, []byte("\r\n"), nil), []byte("\r"))
}

// oddNames reports whether a line has invalid bytes before its colon, or something like a chunk
// extension.
func oddNames(stream []byte) bool {
	odd := func(r rune) bool {
		return (r < '0' || r > '9') && (r|0x20 < 'a' || r|0x20 > 'z') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	}
	first := true // of a head
	for line := range bytes.Lines(stream) {
		name, _, _ := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(":"))
		status := first && bytes.HasPrefix(line, []byte("HTTP/1.")) && len(line) > len("HTTP/1.1") && line[len("HTTP/1.1")] == ' '
		if bytes.ContainsFunc(name, odd) && !status {
			return true
		}
		first = len(bytes.TrimRight(line, "\r\n")) == 0
	}
	return false
}
