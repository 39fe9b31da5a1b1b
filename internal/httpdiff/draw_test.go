package httpdiff

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// stream is what one client does on one connection.
type stream struct {
	Requests []request
	Half     bool          // the client half-closes after its last byte
	Waits    bool          // it waits for each answer before it sends the next request
	Cuts     []int         // where it begins a new write, as offsets into all bytes
	Pace     time.Duration // how long it waits before a new write
	Late     time.Duration // how long it waits before it reads
	Pauses   []pause       // in the order of their offsets

	ReadHeaderTimeout, ReadTimeout time.Duration // the servers' settings
}

// request is a request as the client sends it, valid or not. The line, the fields and the empty
// line include their line ends.
type request struct {
	Line   string
	Fields []string
	Empty  string
	Body   string
}

// pause is a longer wait.
type pause struct {
	At       int // after that many bytes
	For      time.Duration
	Shutdown bool // in the middle of it, the server is shut down
}

func (q *request) bytes() string { return q.Line + strings.Join(q.Fields, "") + q.Empty + q.Body }

func (s *stream) bytes() string {
	var b strings.Builder
	for i := range s.Requests {
		b.WriteString(s.Requests[i].bytes())
	}
	return b.String()
}

// ends are the offsets at which the requests end.
func (s *stream) ends() (all []int) {
	n := 0
	for i := range s.Requests {
		n += len(s.Requests[i].bytes())
		all = append(all, n)
	}
	return all
}

// clone copies everything that a change to the copy could touch.
func (s *stream) clone() *stream {
	c := *s
	c.Requests = slices.Clone(s.Requests)
	for i := range c.Requests {
		c.Requests[i].Fields = slices.Clone(c.Requests[i].Fields)
	}
	c.Cuts, c.Pauses = slices.Clone(s.Cuts), slices.Clone(s.Pauses)
	return &c
}

// timed reports whether the result depends on time.
func (s *stream) timed() bool { return len(s.Pauses) > 0 || s.ReadHeaderTimeout+s.ReadTimeout > 0 }

// stops reports whether the server is shut down.
func (s *stream) stops() bool {
	return slices.ContainsFunc(s.Pauses, func(p pause) bool { return p.Shutdown })
}

// literal is the stream as Go source.
func (s *stream) literal() string {
	text := zeroField.ReplaceAllString(strings.ReplaceAll(fmt.Sprintf("%#v", *s), "httpdiff.", ""), "")
	text = longFill.ReplaceAllStringFunc(text, func(part string) string {
		number, _ := strconv.ParseInt(part[3:7], 16, 0)
		from := 8 * int(number)
		if to := from + len(part); to <= mostFill && part == filling()[from:to] {
			return fmt.Sprintf(`" + fill(%d)[%d:] + "`, to, from)
		}
		return part
	})
	return strings.NewReplacer("request{request{", "request{{", ", request{", ",\n\t{", "pause{pause{", "pause{{", ", pause{", ", {", "[0:]", "", `"" + `, "", ` + ""`, "").Replace(text)
}

var (
	zeroField = regexp.MustCompile(`, \w+:(?:false|0|""|\[\][\w.]+(?:\(nil\)|\{\}))`)
	longFill  = regexp.MustCompile(`(?:fil[0-9a-f]{4};){8,}`)
)

const mostFill = 400_000

// fill returns n bytes of text in which every 8 bytes differ. It may stand in a field.
func fill(n int) string { return filling()[:n] }

var filling = sync.OnceValue(func() string {
	b := make([]byte, 0, mostFill)
	for i := 0; len(b) < mostFill; i++ {
		b = fmt.Appendf(b, "fil%04x;", i)
	}
	return string(b)
})

// drawer draws streams. The same seed and number make the same stream.
type drawer struct {
	*rand.Rand
	names []string // the handlers to choose from
}

// chance is true once in n times.
func (d *drawer) chance(n int) bool { return d.IntN(n) == 0 }

func (d *drawer) one(of ...string) string { return of[d.IntN(len(of))] }

// closing is the last request of a client that does not half-close.
var closing = request{"GET /end HTTP/1.1\r\n", []string{"Host: a\r\n", "Connection: close\r\n"}, "\r\n", ""}

// draw draws a stream without long pauses.
func draw(seed, number uint64) *stream {
	d := &drawer{Rand: rand.New(rand.NewPCG(seed, number))}
	truncated := d.chance(10)
	s := &stream{Half: truncated && !d.chance(10) || !d.chance(4)}
	d.names = slices.DeleteFunc(slices.Clone(handlerNames), func(name string) bool {
		return s.Half && slices.Contains(needsClient, name) || !s.Half && slices.Contains(needsEnd, name)
	})
	if d.chance(20) {
		d.burst(s)
	} else {
		odd := d.chance(2)
		for range 1 + min(d.IntN(7), d.IntN(7)) {
			q := d.request()
			for odd && d.chance(2) {
				oddities[d.IntN(len(oddities))](d, &q)
			}
			s.Requests = append(s.Requests, q)
		}
		s.Waits = d.chance(2)
	}
	if d.chance(10) {
		d.mutate(&s.Requests[d.IntN(len(s.Requests))])
	}
	if truncated {
		last := s.Requests[len(s.Requests)-1].bytes()
		n := d.IntN(len(last) + 1)
		if d.chance(2) { // rather in the head than in a large body
			n = min(n, d.IntN(100))
		}
		s.cutAt(len(s.bytes()) - len(last) + n)
	}
	if !s.Half {
		s.Requests = append(s.Requests, closing)
	}
	d.cut(s)
	return s
}

// burst draws many ordinary requests, to a client that begins to read late.
func (d *drawer) burst(s *stream) {
	for range 2 + d.IntN(8) {
		name := d.one(d.names...)
		if d.chance(3) {
			name = d.one("write-70000", "write-300000", "panic-flush", "panic", "copy-declared", "abort-flush", "hijack")
		}
		s.Requests = append(s.Requests, get("/"+name))
	}
	if d.chance(2) {
		s.Late = 20 * time.Millisecond
	}
}

// request draws an ordinary request.
func (d *drawer) request() request {
	q := request{Fields: []string{"Host: a\r\n"}, Empty: "\r\n"}
	method, name, kind := d.one("GET", "GET", "GET", "HEAD", "DELETE", "OPTIONS"), d.one(d.names...), d.IntN(10)
	switch name {
	case "form":
		q.Body, kind = "a=b&c=%64&a=e", d.IntN(5)
		q.add("Content-Type: application/x-www-form-urlencoded\r\n")
	case "multipart":
		q.Body, kind = "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nvalue\r\n--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f.txt\"\r\n\r\n"+fill(d.size())+"\r\n--x--\r\n", d.IntN(5)
		q.add("Content-Type: multipart/form-data; boundary=x\r\n")
	default:
		if kind < 5 {
			q.Body = fill(d.size())
		}
	}
	switch {
	case kind < 3:
		method = d.one("POST", "POST", "PUT", "PATCH", "GET", "HEAD")
		q.add(fmt.Sprintf("Content-Length: %d\r\n", len(q.Body)))
	case kind < 5:
		method = d.one("POST", "POST", "PUT", "GET")
		q.add("Transfer-Encoding: chunked\r\n")
		q.Body = d.chunks(q.Body)
	}
	for d.chance(3) {
		q.add(d.one(
			"User-Agent: drawn/1.0\r\n", "Accept: */*\r\n", "Accept-Encoding: gzip, deflate\r\n", "Cookie: a=b; c=d\r\n", "X-A: 1\r\n", "x-a:2\r\n",
			"X-A: \t 3 \r\n", "Range: bytes=5-20\r\n", "Range: bytes=-3\r\n", "If-None-Match: \"tag\"\r\n", "If-Modified-Since: Thu, 01 Jan 1970 00:00:01 GMT\r\n",
			"Pragma: no-cache\r\n", "Cache-Control: max-age=0\r\n", "Authorization: Basic YTpi\r\n", "Content-Type: text/plain\r\n", "Referer: http://b/\r\n", "TE: trailers\r\n", "Empty:\r\n",
		))
	}
	q.Line = method + " /" + name + d.one("", "", "", "", "?q=1", "?a=b&c=%64;x", "/x", "/sub/", "/%2F%61", "/a.txt", "?") + " HTTP/1.1\r\n"
	return q
}

func (q *request) add(field string) { q.Fields = append(q.Fields, field) }

// size draws the size of a body: mostly small.
func (d *drawer) size() int {
	sizes := []int{0, 1, 2, 10, 11, 100, 1000, 4096, 5000, 20_000, 48<<10 - 1, 48 << 10, 48<<10 + 1, 70_000, 262_145, 300_000}
	return sizes[d.IntN([]int{8, 8, 8, 8, len(sizes)}[d.IntN(5)])]
}

// chunks encodes text in chunks, some of them odd.
func (d *drawer) chunks(text string) string {
	var b strings.Builder
	for text != "" {
		n := min(len(text), 1+d.IntN(1+d.IntN(1+len(text))))
		size, eol, after := fmt.Sprintf("%x", n), "\r\n", "\r\n"
		if d.chance(8) {
			size = d.one(size+";a=b", size+";a=\"b;\r\"", "0"+size, strings.ToUpper(size), size+" ", size+";"+fill(20), "000000000"+size)
		}
		if d.chance(150) {
			size = d.one("-1", "x", "", " "+size, "ffffffffffffffffff", size+"\x00", "+1")
		}
		if d.chance(50) {
			eol, after = d.one("\n", "\r\n"), d.one("\r\n", "\n", "", "x\r\n")
		}
		b.WriteString(size + eol + text[:n] + after)
		text = text[n:]
	}
	b.WriteString(d.one("0", "0", "0", "0;x=y", "00") + "\r\n")
	if d.chance(5) {
		b.WriteString(d.one("X-Trailer: 1\r\n", "A: b\r\nC: d\r\n", "Content-Length: 5\r\n", "bad trailer\r\n", "Host: b\r\n", "A: "+fill(5000)+"\r\n", "A: b\n"))
	}
	b.WriteString("\r\n")
	return b.String()
}

// replace changes the request line.
func replace(old string, by ...string) func(*drawer, *request) {
	return func(d *drawer, q *request) { q.Line = strings.Replace(q.Line, old, d.one(by...), 1) }
}

// adds adds one of some fields.
func adds(fields ...string) func(*drawer, *request) {
	return func(d *drawer, q *request) { q.add(d.one(fields...)) }
}

// oddities are what hostile or old clients do to a request.
var oddities = []func(*drawer, *request){
	replace("HTTP/1.1", "HTTP/1.0", "HTTP/1.0", "HTTP/1.0", "HTTP/1.2", "HTTP/2.0", "HTTP/0.9", "http/1.1", "HTTP/1.1 ", "HTTP/1.10", "FTP/1.1", ""),
	func(d *drawer, q *request) {
		replace("HTTP/1.1", "HTTP/1.0")(d, q)
		q.add("Connection: keep-alive\r\n")
	},
	replace(" /", " http://b/", " http://b:80/", " HTTPS://u:p@b/", "  /", "\t/", " //b/", " /../", " /./", " /%zz", " /%00", " /\x80", " é/", " ", " *", " b/", " ?", " /a b", " /\"<>", " /;p/", " /"+fill(300)+"/"),
	replace(" HTTP", "#f HTTP", "?a;b HTTP", "?%zz HTTP", "/..;/ HTTP", "??? HTTP"),
	func(d *drawer, q *request) {
		q.Line = d.one("OPTIONS * HTTP/1.1\r\n", "OPTIONS * HTTP/1.0\r\n", "GET * HTTP/1.1\r\n", "CONNECT b:443 HTTP/1.1\r\n", "CONNECT /echo HTTP/1.1\r\n", "PRI * HTTP/2.0\r\n", "GET\r\n", "GET /echo\r\n", "\x16\x03\x01\x02\r\n", "get /echo HTTP/1.1\r\n", "G(T /echo HTTP/1.1\r\n", "PURGE /echo HTTP/1.1\r\n", " /echo HTTP/1.1\r\n")
	},
	func(d *drawer, q *request) {
		q.Line = d.one("\r\n", "\r\n\r\n", "\n", " ", "\r", "\r\n\r\n\r\n") + q.Line
	},
	func(d *drawer, q *request) { // bare line feeds
		q.Line, q.Empty = strings.ReplaceAll(q.Line, "\r\n", "\n"), "\n"
		for i := range q.Fields {
			q.Fields[i] = strings.ReplaceAll(q.Fields[i], "\r\n", "\n")
		}
	},
	func(d *drawer, q *request) { q.Empty = d.one("\n", "\r\r\n", " \r\n", "\r\n\r\n", "", "\r") },
	func(d *drawer, q *request) {
		q.Fields[0] = d.one("", "Host:\r\n", "Host: a/b\r\n", "Host: [::1]:80\r\n", "Host: a:b:c\r\n", "host: A\r\n", "Host : a\r\n", "Host: a\r\nHost: a\r\n", "Host: a\r\nHost: b\r\n", "Host: a, b\r\n", "Host: \xff\r\n", "\tHost: a\r\n")
	},
	adds("X: b\r\n c\r\n", "X: b\r\n\tc\r\n", "X:\r\n b\r\n", "X: b\x00c\r\n", "X: b\rc\r\n", "X: b\nc\r\n", "X : b\r\n", "X\r\n", ": b\r\n", "X(: b\r\n", "X\x00: b\r\n", "X: \xff\xfe\r\n", "X_y: b\r\n", "X: b\x7f\r\n", "X: b\n", "=: b\r\n"),
	adds("Content-Length: 5\r\n", "Content-Length: 0\r\n", "Content-Length: 5\r\nContent-Length: 5\r\n", "Content-Length: 5\r\nContent-Length: 6\r\n", "Content-Length: +5\r\n", "Content-Length: 5, 5\r\n", "Content-Length: 0x5\r\n", "Content-Length: -1\r\n", "Content-Length:\r\n", "Content-Length: 99999999999999999999\r\n", "Content-Length: 5 \r\n", "content-length: 05\r\n", "Content_Length: 5\r\n", "Content-Length : 5\r\n"),
	adds("Transfer-Encoding: chunked\r\n", "Transfer-Encoding: identity\r\n", "Transfer-Encoding: gzip, chunked\r\n", "Transfer-Encoding: chunked, chunked\r\n", "Transfer-Encoding: Chunked\r\n", "Transfer-Encoding: \tchunked \r\n", "Transfer-Encoding:\r\n", "Transfer-Encoding: xchunked\r\n", "Transfer-Encoding : chunked\r\n", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "transfer_encoding: chunked\r\n", "Transfer-Encoding:\r\n chunked\r\n"),
	func(d *drawer, q *request) { // the length of a body, and chunks
		q.add(fmt.Sprintf("Content-Length: %d\r\n", d.IntN(len(q.Body)+2)))
		q.add("Transfer-Encoding: chunked\r\n")
		if d.chance(2) {
			q.Body = d.chunks(q.Body)
		}
	},
	adds("Connection: close\r\n", "Connection: Close\r\n", "Connection: close, x\r\n", "Connection: keep-alive\r\n", "Connection: upgrade\r\n", "Connection: close\r\nConnection: keep-alive\r\n", "Connection: X-A\r\n", "Connection: Content-Length\r\n", "Connection: close,close\r\n", "Proxy-Connection: keep-alive\r\n", "Keep-Alive: 5\r\n"),
	adds("Expect: 100-continue\r\n", "Expect: 100-Continue\r\n", "Expect: a miracle\r\n", "Expect:\r\n", "Expect: 100-continue\r\nExpect: x\r\n"),
	adds("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n", "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", "Upgrade: websocket\r\n", "Connection: upgrade\r\nUpgrade: x\r\n"),
	adds("Trailer: X-Trailer\r\n", "Trailer: Content-Length\r\n", "Trailer: A, C\r\n", "Trailer:\r\n", "TE: gzip\r\n", "Trailer: a b\r\n"),
	func(d *drawer, q *request) {
		q.add("X-Long: " + fill([]int{300, 4000, 9000, 16_000, 40_000}[d.IntN(5)]) + "\r\n")
	},
	func(d *drawer, q *request) {
		for i := range []int{20, 99, 100, 101, 150, 600}[d.IntN(6)] {
			q.add(fmt.Sprintf("X-%d: %d\r\n", i%130, i))
		}
	},
	func(d *drawer, q *request) { q.add(q.Fields[d.IntN(len(q.Fields))]) },
	func(d *drawer, q *request) {
		d.Shuffle(len(q.Fields), func(i, j int) { q.Fields[i], q.Fields[j] = q.Fields[j], q.Fields[i] })
	},
	func(d *drawer, q *request) {
		q.Body += d.one("\r\n", "\n", "G", "extra", "\r\n\r\n", "\x00", "0\r\n\r\n")
	},
	func(d *drawer, q *request) { q.Body = q.Body[:len(q.Body)-min(len(q.Body), 1+d.IntN(3))] },
}

// mutate changes a few bytes of a request.
func (d *drawer) mutate(q *request) {
	parts := []*string{&q.Line, &q.Empty, &q.Body}
	for i := range q.Fields {
		parts = append(parts, &q.Fields[i])
	}
	for range 1 + d.IntN(3) {
		part := parts[d.IntN(len(parts))]
		if *part == "" {
			continue
		}
		at := d.IntN(len(*part))
		before, at1, after := (*part)[:at], (*part)[at], (*part)[at+1:]
		*part = before + d.one(
			string([]byte{at1 ^ 1<<d.IntN(8)})+after,
			string([]byte{byte(d.IntN(256))})+after,
			after[min(len(after), d.IntN(4)):],
			d.one("\r", "\n", "\r\n", " ", "\t", "\x00", ":", ",", "%", "?", "/", "%2f", "\x7f", "\xff", "-", "close", "\r\n ", "0", "9")+string([]byte{at1})+after)
	}
}

// cut draws where the client begins a new write, and how long it waits there.
func (d *drawer) cut(s *stream) {
	n := len(s.bytes())
	cuts := []int{}
	switch d.IntN(8) {
	case 0, 1, 2:
		for range 1 + d.IntN(1+d.IntN(5)) {
			cuts = append(cuts, d.IntN(n+1))
		}
	case 3:
		for _, end := range s.ends() {
			cuts = append(cuts, min(n, max(0, end-3+d.IntN(7))))
		}
	case 4: // single bytes
		from := d.IntN(n + 1)
		for i := from; i < min(n, from+5+d.IntN(100)); i++ {
			cuts = append(cuts, i)
		}
	}
	if len(cuts) > 0 {
		s.Cuts, s.Pace = cuts, []time.Duration{0, 0, 100 * time.Microsecond, time.Millisecond}[d.IntN(4)]
	}
}

// beat is a ReadHeaderTimeout, and the unit of pauses: longer than a busy machine delays a client.
const beat = 200 * time.Millisecond

// drawTimed draws a stream that pauses for longer than a timeout, or while the server shuts down.
func drawTimed(seed, number uint64) *stream {
	d := &drawer{rand.New(rand.NewPCG(seed, number)), slices.DeleteFunc(slices.Clone(handlerNames), func(name string) bool {
		return slices.Contains(slices.Concat(needsClient, needsEnd), name)
	})}
	s := &stream{Half: d.chance(2), Waits: d.chance(2)}
	for range 1 + d.IntN(3) {
		s.Requests = append(s.Requests, d.request())
	}
	at := d.IntN(len(s.Requests))
	q := &s.Requests[at]
	before := s.ends()[at] - len(q.bytes())
	head := len(q.bytes()) - len(q.Body)
	switch where := d.IntN(8); {
	case where < 4 && q.Body != "":
		before += head + d.IntN(len(q.Body))
	case where < 6:
		before += 1 + d.IntN(head-1)
	case where == 6:
		before += head
	}
	p := pause{At: before, For: 2 * beat}
	kind := d.IntN(5)
	switch kind {
	case 0:
		p.For, p.Shutdown = beat, true
	case 1:
		s.ReadHeaderTimeout = beat
	case 2:
		s.ReadTimeout = []time.Duration{beat, 4 * beat}[d.IntN(2)]
	default:
		s.ReadHeaderTimeout, s.ReadTimeout = beat, 4*beat
		p.For = []time.Duration{2 * beat, 2 * beat, 6 * beat}[d.IntN(3)]
	}
	s.Pauses = []pause{p}
	for i := 1; i < 4 && kind == 4; i++ { // drips
		s.Pauses = append(s.Pauses, pause{At: min(before+i, len(s.bytes())), For: beat / 2})
		s.Pauses[0].For = beat / 2
	}
	if d.chance(4) { // nothing comes after the pause
		s.cutAt(s.Pauses[len(s.Pauses)-1].At)
		if d.chance(2) {
			s.Half = !s.Half
		}
		return s
	}
	if !s.Half {
		s.Requests = append(s.Requests, closing)
	}
	return s
}

// cutAt ends the stream after n bytes.
func (s *stream) cutAt(n int) {
	keep := func(part *string) {
		*part = (*part)[:min(n, len(*part))]
		n -= len(*part)
	}
	for i := range s.Requests {
		q := &s.Requests[i]
		keep(&q.Line)
		for i := range q.Fields {
			keep(&q.Fields[i])
		}
		q.Fields = slices.DeleteFunc(q.Fields, func(f string) bool { return f == "" })
		keep(&q.Empty)
		keep(&q.Body)
	}
	s.Requests = slices.DeleteFunc(s.Requests, func(q request) bool { return q.bytes() == "" })
}
