package http1

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"reflect"
	"strings"
	"testing"
)

const (
	bareHead = "GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n"
	curlHead = "GET /index.html?page=2 HTTP/1.1\r\nHost: example.org\r\nUser-Agent: curl/8.14.1\r\nAccept: */*\r\n\r\n"

	// browserHead has eleven fields.
	browserHead = "GET /articles/2026/networks HTTP/1.1\r\n" +
		"Host: www.example.org\r\n" +
		"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n" +
		"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n" +
		"Accept-Language: en-GB,en;q=0.5\r\n" +
		"Accept-Encoding: gzip, deflate, br, zstd\r\n" +
		"Referer: https://www.example.org/articles\r\n" +
		"Connection: keep-alive\r\n" +
		"Cookie: session=0123456789abcdef0123456789abcdef; theme=dark\r\n" +
		"Upgrade-Insecure-Requests: 1\r\n" +
		"Sec-Fetch-Dest: document\r\n" +
		"Priority: u=0, i\r\n\r\n"

	remoteAddr = "192.0.2.1:50000"
)

// TestHeadVerdict has an accepted and a refused example for each rule.
func TestHeadVerdict(t *testing.T) {
	const end = " HTTP/1.1\r\nHost: a\r\n\r\n"
	with := func(line string) string { return "GET / HTTP/1.1\r\nHost: a\r\n" + line + "\r\n\r\n" }
	many := func(n int) string { return strings.Repeat("A: b\r\n", n) }
	for _, c := range []struct {
		rule, in string
		want     verdict
	}{
		{"nothing yet", "", incomplete},
		{"a bare GET", bareHead, fast},
		{"curl", curlHead, fast},
		{"a browser", browserHead, fast},
		{"a body, a further request", with("Content-Length: 3") + "abcGET", fast},

		{"method: any token", "M-SEARCH /" + end, fast},
		{"method: lower case is another method", "get /" + end, fast},
		{"method: CONNECT", "CONNECT /" + end, leave},
		{"method: PRI", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", leave},
		{"method: none", " /" + end, leave},
		{"method: not a token", "GE(T /" + end, leave},
		{"method: long", strings.Repeat("M", maxMethod) + " /" + end, fast},
		{"method: too long", strings.Repeat("M", maxMethod+1) + " /" + end, leave},
		{"method: never ends", strings.Repeat("M", maxMethod+1), leave},
		{"method: TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", leave},
		{"line: empty lines before it", "\r\n" + bareHead, leave},
		{"line: LF before it", "\n" + bareHead, leave},
		{"line: white space before it", " " + bareHead, leave},
		{"line: two spaces", "GET  /" + end, leave},
		{"line: a tab", "GET\t/" + end, leave},
		{"line: bare LF", "GET / HTTP/1.1\nHost: a\r\n\r\n", leave},
		{"line: bare CR", "GET / HTTP/1.1\rHost: a\r\n\r\n", leave},

		{"target: escapes", "GET /%41%2f%2F?%zz" + end, fast},
		{"target: a wrong escape", "GET /%4g" + end, leave},
		{"target: an escape cut short", "GET /%4" + end, leave},
		{"target: bytes that would be escaped", "GET /a*b'\"<>[]{}|\\^`!()#f" + end, fast},
		{"target: bytes over 127", "GET /\xff?\x80" + end, fast},
		{"target: two slashes", "GET //a//b" + end, fast},
		{"target: an empty query", "GET /?" + end, fast},
		{"target: an empty query after escapes", "GET /*%2f?" + end, fast},
		{"target: several question marks", "GET /??a?" + end, fast},
		{"target: absolute", "GET http://a/" + end, leave},
		{"target: OPTIONS *", "OPTIONS *" + end, leave},
		{"target: OPTIONS of a path", "OPTIONS /" + end, fast},
		{"target: none", "GET " + end, leave},
		{"target: a space", "GET /a b" + end, leave},
		{"target: a control character", "GET /a\x01" + end, leave},
		{"target: DEL", "GET /a\x7f" + end, leave},
		{"target: a control character in the query", "GET /?\x01" + end, leave},
		{"target: DEL in the query", "GET /?\x7f" + end, leave},

		{"version: 1.0", "GET / HTTP/1.0\r\nHost: a\r\n\r\n", leave},
		{"version: 0.9", "GET /\r\n", leave},
		{"version: 2.0", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", leave},
		{"version: 1.10", "GET / HTTP/1.10\r\nHost: a\r\n\r\n", leave},
		{"version: lower case", "GET / http/1.1\r\nHost: a\r\n\r\n", leave},
		{"version: a space after it", "GET / HTTP/1.1 \r\nHost: a\r\n\r\n", leave},

		{"Host: none", "GET / HTTP/1.1\r\nAccept: a\r\n\r\n", leave},
		{"Host: no field at all", "GET / HTTP/1.1\r\n\r\n", leave},
		{"Host: twice", with("Host: a"), leave},
		{"Host: twice in another case", with("hOST: b"), leave},
		{"Host: empty", "GET / HTTP/1.1\r\nHost:\r\n\r\n", fast},
		{"Host: IPv6", "GET / HTTP/1.1\r\nHost: [fe80::1%25eth0]:80\r\n\r\n", fast},
		{"Host: a slash", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", leave},
		{"Host: white space", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", leave},
		{"Host: a byte over 127", "GET / HTTP/1.1\r\nHost: \xe4\r\n\r\n", leave},

		{"name: any token", with("!#$%&'*+-.^_`|~09azAZ: b"), fast},
		{"name: empty", with(": b"), leave},
		{"name: a space before the colon", with("A : b"), leave},
		{"name: a space in it", with("A b: c"), leave},
		{"name: no colon", with("A"), leave},
		{"name: a byte over 127", with("\xe4: b"), leave},
		{"name: long", with(strings.Repeat("a", maxName) + ": b"), fast},
		{"name: too long", with(strings.Repeat("a", maxName+1) + ": b"), leave},
		{"value: empty", with("A:"), fast},
		{"value: white space around it", with("A: \t b c\t \t"), fast},
		{"value: only white space", with("A: \t "), fast},
		{"value: tabs inside", with("A: b\tc\td"), fast},
		{"value: bytes over 127", with("A: \x80\xff"), fast},
		{"value: NUL", with("A: b\x00c"), leave},
		{"value: DEL", with("A: 0123456789\x7f0123456789"), leave},
		{"value: bare CR", with("A: b\rc"), leave},
		{"value: two CRs", with("A: b\r"), leave},
		{"value: bare LF", with("A: b\nB: c"), leave},
		{"value: continued", with("A: b\r\n c"), leave},
		{"value: continued with a tab", with("A: b\r\n\tc"), leave},
		{"white space before the first field", "GET / HTTP/1.1\r\n Host: a\r\n\r\n", leave},
		{"repeated", with("A: 1\r\na: 2\r\nCookie: c\r\nCOOKIE: d"), fast},

		{"Content-Length: 0", with("Content-Length: 0"), fast},
		{"Content-Length: leading zeros", with("Content-Length: 0000000000000000003"), fast},
		{"Content-Length: of 20 digits", with("Content-Length: 00000000000000000003"), leave},
		{"Content-Length: as much as waits in memory", with("Content-Length: 49152"), fast},
		{"Content-Length: more", with("Content-Length: 49153"), leave},
		{"Content-Length: over 64 bits", with("Content-Length: 9999999999999999999"), leave},
		{"Content-Length: wraps around", with("Content-Length: 18446744073709551617"), leave},
		{"Content-Length: empty", with("Content-Length:"), leave},
		{"Content-Length: signed", with("Content-Length: +3"), leave},
		{"Content-Length: negative", with("Content-Length: -3"), leave},
		{"Content-Length: hexadecimal", with("Content-Length: 0x3"), leave},
		{"Content-Length: a list", with("Content-Length: 3, 3"), leave},
		{"Content-Length: twice the same", with("Content-Length: 3\r\nContent-Length: 3"), leave},
		{"Content-Length: twice", with("Content-Length: 3\r\ncontent-length: 4"), leave},
		{"Transfer-Encoding", with("Transfer-Encoding: chunked"), leave},
		{"Transfer-Encoding: in lower case", with("transfer-encoding: identity"), leave},
		{"Expect", with("Expect: 100-continue"), leave},
		{"Trailer", with("Trailer: A"), leave},
		{"Upgrade: websocket", with("Connection: Upgrade\r\nUpgrade: WebSocket"), fast},
		{"Upgrade: websocket with a body", with("Upgrade: websocket\r\nContent-Length: 1") + "a", leave},
		{"Upgrade: something else", with("Upgrade: h2c"), leave},
		{"Upgrade: a list", with("Upgrade: websocket, h2c"), leave},
		{"Upgrade: twice", with("Upgrade: websocket\r\nUpgrade: websocket"), leave},
		{"TE", with("TE: trailers"), fast},

		{"Connection: keep-alive", with("Connection: Keep-Alive"), fast},
		{"Connection: close", with("connection: CLOSE"), fast},
		{"Connection: both, in two fields", with("Connection: keep-alive\r\nConnection: close"), fast},
		{"Connection: upgrade", with("Connection: Upgrade"), fast},
		{"Connection: keep-alive, upgrade", with("Connection: keep-alive, Upgrade"), fast},
		{"Connection: upgrade, HTTP2-Settings", with("Connection: Upgrade, HTTP2-Settings"), leave},
		{"Connection: a list", with("Connection: keep-alive, close"), leave},
		{"Connection: close and more", with("Connection: close x"), leave},
		{"Connection: an ASCII look-alike", with("Connection: keep\ralive"), leave},
		{"Pragma", with("Pragma: no-cache"), fast},
		{"Pragma: with Cache-Control", with("Pragma: no-cache\r\ncache-control: max-age=0"), fast},
		{"Pragma: only the first counts", with("Pragma: a\r\nPragma: no-cache"), fast},

		{"many fields", "GET / HTTP/1.1\r\nHost: a\r\n" + many(maxFields-1) + "\r\n", fast},
		{"too many fields", "GET / HTTP/1.1\r\nHost: a\r\n" + many(maxFields) + "\r\n", leave},
		{"a long head", sizedHead(maxHead), fast},
		{"too long a head", sizedHead(maxHead + 1), leave},
		{"too long a head that does not end", sizedHead(maxHead + 4)[:maxHead], leave},
		{"a long head that does not end yet", sizedHead(maxHead + 4)[:maxHead-1], incomplete},
	} {
		var h head
		if got := h.parse([]byte(c.in)); got != c.want {
			t.Errorf("%s: verdict %d, want %d", c.rule, got, c.want)
		} else if got == fast {
			checkHead(t, &h, []byte(c.in))
		}
	}
}

// sizedHead is a valid head of size bytes.
func sizedHead(size int) string {
	const before, after = "GET / HTTP/1.1\r\nHost: a\r\nA: ", "\r\n\r\n"
	return before + strings.Repeat("x", size-len(before)-len(after)) + after
}

// TestHeadLimit checks limits below and above maxHead.
func TestHeadLimit(t *testing.T) {
	for most, want := range map[int]verdict{100: fast, 99: leave, 0: fast, 2 * maxHead: fast} {
		h := head{most: most}
		if got := h.parse([]byte(sizedHead(100))); got != want {
			t.Errorf("at most %d of 100 bytes: verdict %d, want %d", most, got, want)
		}
	}
	h := head{most: 2 * maxHead}
	if got := h.parse([]byte(sizedHead(maxHead + 1))); got != leave {
		t.Errorf("over maxHead: verdict %d, want leave", got)
	}
}

// TestHeadFields checks requests against results that are written out here, independently of
// net/http.
func TestHeadFields(t *testing.T) {
	in := []byte("POST /a%20b/c?d=e HTTP/1.1\r\nHOST: a:1\r\nx-one:  1\r\nCookie: a=b\r\nX-One: 2 \r\n" +
		"Pragma: no-cache\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabcGET")
	var h head
	if got := h.parse(in); got != fast || !h.close || h.length != 3 || string(in[h.size:]) != "abcGET" {
		t.Fatalf("verdict %d, %d bytes, a body of %d, close %v", got, h.size, h.length, h.close)
	}
	var r http.Request
	h.fill(&r, new(url.URL), in, remoteAddr)
	clear(in) // the request must not alias it
	want := http.Request{
		Method: "POST", URL: &url.URL{Path: "/a b/c", RawQuery: "d=e"}, RequestURI: "/a%20b/c?d=e",
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Host: "a:1", ContentLength: 3, Close: true, RemoteAddr: remoteAddr,
		Header: http.Header{
			"X-One": {"1", "2"}, "Cookie": {"a=b"}, "Pragma": {"no-cache"}, "Cache-Control": {"no-cache"},
			"Content-Length": {"3"}, "Connection": {"close"},
		},
	}
	if !reflect.DeepEqual(r, want) {
		t.Errorf("got  %+v\nwant %+v", r, want)
	}
	r.Header.Add("Cookie", "c=d") // must copy, so that it cannot overwrite a neighbour
	if got := r.Header["X-One"]; got[0] != "1" || got[1] != "2" {
		t.Errorf("X-One has become %q", got)
	}
}

// TestHeadReuse parses several heads with the same head value.
func TestHeadReuse(t *testing.T) {
	ins := []string{
		browserHead, bareHead, "GET / HTTP/1.1\r\nA: b\r\n\r\n", curlHead,
		"POST /%41*?? HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\nConnection: close\r\nPragma: no-cache\r\nA: 1\r\nA: 2\r\n\r\n",
		"GET /*", "GET /? HTTP/1.1\r\nPragma: x\r\nPragma: no-cache\r\nHost: a\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
	}
	var h head
	for i := range ins {
		for _, in := range []string{ins[i], bareHead, ins[len(ins)-1-i]} {
			var fresh head
			if got, want := h.parse([]byte(in)), fresh.parse([]byte(in)); got != want {
				t.Errorf("%q: verdict %d, and %d when fresh", in, got, want)
			} else if got == fast {
				checkHead(t, &h, []byte(in))
			}
		}
	}
}

// TestHeadSplit cuts heads after each byte: a head that is fast as a whole is incomplete at
// every cut.
func TestHeadSplit(t *testing.T) {
	for _, in := range []string{
		bareHead, curlHead, browserHead,
		"POST /%41?b=%zz HTTP/1.1\r\nHost:a\r\nContent-Length:\t5 \r\nX: \t \r\nY:\r\n\r\nabcde",
		sizedHead(200),
	} {
		var whole, h head
		if got := whole.parse([]byte(in)); got != fast {
			t.Fatalf("%q: verdict %d", in, got)
		}
		for i := range in {
			want := incomplete
			if i >= whole.size {
				want = fast
			}
			if got := h.parse([]byte(in[:i])); got != want {
				t.Errorf("%q: verdict %d, want %d", in[:i], got, want)
			}
		}
	}
}

// TestHeadGivesUpAtOnce checks that a head that cannot become fast goes to net/http before it is
// complete.
func TestHeadGivesUpAtOnce(t *testing.T) {
	for _, in := range []string{
		"\x16", "\r", "\n", " ", "{", "PRI ", "CONNECT ", "GET h", "GET *", "GET /%g", "GET /\n", "GET /a\r",
		"GET / HTTP/1.0", "GET / HTTP/2", "GET / h", "GET / HTTP/1.1\n", "GET / HTTP/1.1\r\n ",
		"GET / HTTP/1.1\r\nA ", "GET / HTTP/1.1\r\nA\r", "GET / HTTP/1.1\r\nA: \x00", "GET / HTTP/1.1\r\nA: \x7f", "GET / HTTP/1.1\r\nA: b\n",
		"GET / HTTP/1.1\r\nA: b\r\r", "GET / HTTP/1.1\r\n\r\r", "GET / HTTP/1.1\r\nExpect: 1\r\n",
	} {
		var h head
		if got := h.parse([]byte(in)); got != leave {
			t.Errorf("%q: verdict %d, want leave", in, got)
		}
		if got := h.parse([]byte(in[:len(in)-1])); got != incomplete {
			t.Errorf("%q: verdict %d, want incomplete", in[:len(in)-1], got)
		}
	}
}

// TestKnownNames checks the spelling of the names with package textproto.
func TestKnownNames(t *testing.T) {
	for k, name := range knownNames {
		if k == 0 {
			continue
		}
		if canonical := textproto.CanonicalMIMEHeaderKey(name); canonical != name {
			t.Errorf("%q should be %q", name, canonical)
		}
		for _, s := range []string{name, strings.ToLower(name), strings.ToUpper(name)} {
			if got := lookUp([]byte(s)); got != known(k) {
				t.Errorf("%q is %q", s, knownNames[got])
			}
		}
		for i := range name {
			other := []byte(name)
			other[i] ^= ' '
			letter := 'a' <= other[i]|' ' && other[i]|' ' <= 'z'
			if got := lookUp(other); (got == known(k)) != letter {
				t.Errorf("%q is %q", other, knownNames[got])
			}
		}
	}
	if len(knownNames) > 64 {
		t.Errorf("%d names do not fit in the bit set", len(knownNames))
	}
}

// TestHeadAllocs limits the allocations of parse and fill: the bytes of the head and the map;
// with fields, also the map's table and the values.
func TestHeadAllocs(t *testing.T) {
	for _, c := range []struct {
		name, in string
		most     float64
	}{{"bare", bareHead, 2}, {"curl", curlHead, 4}, {"browser", browserHead, 6}} {
		var h head
		in := []byte(c.in)
		if n := testing.AllocsPerRun(100, func() { h.parse(in) }); n != 0 {
			t.Errorf("%s: parse allocates %v times", c.name, n)
		}
		var both struct {
			r http.Request
			u url.URL
		}
		if n := testing.AllocsPerRun(100, func() { h.fill(&both.r, &both.u, in, remoteAddr) }); n > c.most {
			t.Errorf("%s: fill allocates %v times, at most %v", c.name, n, c.most)
		}
	}
}

// checkHead compares what h makes of in, which is fast, with the result of http.ReadRequest.
func checkHead(t *testing.T, h *head, in []byte) {
	t.Helper()
	buf := bufio.NewReader(bytes.NewReader(in))
	want, err := http.ReadRequest(buf)
	if err != nil {
		t.Errorf("%q: net/http refuses it: %v", in, err)
		return
	}
	body, err := io.ReadAll(want.Body)
	after, _ := io.ReadAll(buf)
	given := min(h.size+h.length, len(in))
	if string(body) != string(in[h.size:given]) || string(after) != string(in[given:]) || (err == nil) != (given == h.size+h.length) {
		t.Errorf("%q: the body is %q (%v), not %q", in, body, err, in[h.size:given])
	}
	var got struct {
		r http.Request
		u url.URL
	}
	copied := bytes.Clone(in)
	h.fill(&got.r, &got.u, copied, remoteAddr)
	clear(copied)
	want.RemoteAddr, want.Body = remoteAddr, nil
	if h.close != want.Close || !reflect.DeepEqual(&got.r, want) {
		t.Errorf("%q:\ngot  %+v\nwant %+v", in, &got.r, want)
	}
}

// BenchmarkHead compares parse and fill with http.ReadRequest.
func BenchmarkHead(b *testing.B) {
	for _, c := range []struct{ name, in string }{{"bare", bareHead}, {"curl", curlHead}, {"browser", browserHead}} {
		in := []byte(c.in)
		b.Run(c.name+"/parse", func(b *testing.B) {
			var h head
			for b.Loop() {
				h.parse(in)
			}
		})
		b.Run(c.name+"/fast", func(b *testing.B) {
			b.ReportAllocs()
			var h head
			for b.Loop() {
				both := new(struct {
					r http.Request
					u url.URL
				})
				h.parse(in)
				h.fill(&both.r, &both.u, in, remoteAddr)
			}
		})
		b.Run(c.name+"/nethttp", func(b *testing.B) {
			b.ReportAllocs()
			var from bytes.Reader
			buf := bufio.NewReader(nil)
			for b.Loop() {
				from.Reset(in)
				buf.Reset(&from)
				if _, err := http.ReadRequest(buf); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
