package websocket

import (
	"bufio"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// request parses a handshake. Each line replaces the header with its name or adds it; a line
// that ends in a colon removes it.
func request(t *testing.T, start string, lines ...string) *http.Request {
	t.Helper()
	head := []string{
		"Host: example.com", "Upgrade: websocket", "Connection: Upgrade",
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13",
	}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ":")
		for i, old := range head[:5] {
			if strings.HasPrefix(old, name+":") {
				head[i] = "X-Gone: yes"
			}
		}
		if value != "" {
			head = append(head, line)
		}
	}
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(start + "\r\n" + strings.Join(head, "\r\n") + "\r\n\r\n")))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const get = "GET /chat HTTP/1.1"

func TestAcceptRFC(t *testing.T) {
	if got := acceptFor("dGhlIHNhbXBsZSBub25jZQ=="); got != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" {
		t.Errorf("the accept value of RFC 6455 §1.3 is %s", got)
	}
	if a, b := newKey(), newKey(); a == b || !validKey(a) {
		t.Errorf("new keys: %s, %s", a, b)
	}
}

func TestRefusals(t *testing.T) {
	for _, test := range []struct {
		name   string
		start  string
		lines  []string
		status int
	}{
		{"good", get, nil, 0},
		{"lower case, lists", get, []string{"Upgrade: h2c, WebSocket", "Connection: keep-alive, upgrade"}, 0},
		{"two Connection headers", get, []string{"Connection: keep-alive", "Connection: Upgrade"}, 0},
		{"POST", "POST / HTTP/1.1", nil, 405},
		{"HEAD", "HEAD / HTTP/1.1", nil, 405},
		{"HTTP/1.0", "GET / HTTP/1.0", nil, 400},
		{"no Upgrade", get, []string{"Upgrade:"}, 426},
		{"another Upgrade", get, []string{"Upgrade: h2c"}, 426},
		{"Upgrade that only begins so", get, []string{"Upgrade: websockets"}, 426},
		{"no Connection", get, []string{"Connection:"}, 400},
		{"another Connection", get, []string{"Connection: keep-alive"}, 400},
		{"no version", get, []string{"Sec-WebSocket-Version:"}, 400},
		{"two versions", get, []string{"Sec-WebSocket-Version: 13", "Sec-WebSocket-Version: 8"}, 400},
		{"an old version", get, []string{"Sec-WebSocket-Version: 8"}, 426},
		{"a version that is not a number", get, []string{"Sec-WebSocket-Version: 13, 8"}, 426},
		{"no key", get, []string{"Sec-WebSocket-Key:"}, 400},
		{"two keys", get, []string{"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="}, 400},
		{"a short key", get, []string{"Sec-WebSocket-Key: dGhlIHNhbXBsZQ=="}, 400},
		{"a long key", get, []string{"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZSAx"}, 400},
		{"a key that is not base64", get, []string{"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25j!!=="}, 400},
		{"a body", get, []string{"Content-Length: 5"}, 400},
		{"a chunked body", get, []string{"Transfer-Encoding: chunked"}, 400},
		{"an empty body", get, []string{"Content-Length: 0"}, 0},
		{"its own origin", get, []string{"Origin: https://example.com"}, 0},
		{"its own origin, in capitals", get, []string{"Origin: https://EXAMPLE.com"}, 0},
		{"its own origin, with the port", get, []string{"Origin: https://example.com:443"}, 0},
		{"the port in Host", get, []string{"Origin: http://example.com", "Host: example.com:80"}, 0},
		{"another port", get, []string{"Origin: http://example.com:8080"}, 403},
		{"another host", get, []string{"Origin: http://example.org"}, 403},
		{"a host that ends so", get, []string{"Origin: http://evil-example.com"}, 403},
		{"a user of that name", get, []string{"Origin: http://example.com@example.org"}, 403},
		{"null", get, []string{"Origin: null"}, 403},
		{"two origins", get, []string{"Origin: http://example.com", "Origin: http://example.com"}, 403},
		{"an origin that is none", get, []string{"Origin: http://%"}, 403},
		{"subprotocols", get, []string{"Sec-WebSocket-Protocol: chat, superchat"}, 0},
		{"a subprotocol that is not a token", get, []string{"Sec-WebSocket-Protocol: chat, super chat"}, 400},
		{"a subprotocol twice", get, []string{"Sec-WebSocket-Protocol: chat", "Sec-WebSocket-Protocol: chat"}, 400},
		{"an extension", get, []string{"Sec-WebSocket-Extensions: x; y=\"z\\!\", ,permessage-deflate"}, 0},
		{"an extension without a name", get, []string{"Sec-WebSocket-Extensions: ;x"}, 400},
		{"a parameter without a name", get, []string{"Sec-WebSocket-Extensions: x;"}, 400},
		{"a parameter without its value", get, []string{"Sec-WebSocket-Extensions: x; y="}, 400},
		{"a quote that does not end", get, []string{"Sec-WebSocket-Extensions: x; y=\"z"}, 400},
		{"an escape that does not end", get, []string{"Sec-WebSocket-Extensions: x; y=\"z\\"}, 400},
		{"a quoted value that is not a token", get, []string{"Sec-WebSocket-Extensions: x; y=\"a b\""}, 400},
		{"words in a row", get, []string{"Sec-WebSocket-Extensions: x y"}, 400},
	} {
		_, no := readHandshake(request(t, test.start, test.lines...), []string{"chat"}, true, nil)
		if no.status != test.status {
			t.Errorf("%s: %d %s, want %d", test.name, no.status, no.text, test.status)
		}
		if no.status == 0 {
			continue
		}
		w := httptest.NewRecorder()
		no.write(w)
		h := w.Result().Header
		if w.Code != test.status || (h.Get("Allow") == "GET") != (test.status == 405) ||
			(h.Get("Sec-WebSocket-Version") == "13") != (test.status == 426) || (h.Get("Upgrade") == "websocket") != (test.status == 426) {
			t.Errorf("%s: answers %d %v", test.name, w.Code, h)
		}
	}
}

func TestRefusesHTTP2(t *testing.T) {
	r := request(t, get)
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/2.0", 2, 0
	if _, no := readHandshake(r, nil, false, nil); no.status != 400 {
		t.Errorf("HTTP/2: %+v", no)
	}
}

func TestOrigin(t *testing.T) {
	r := request(t, get, "Origin: http://example.org")
	if _, no := readHandshake(r, nil, false, func(*http.Request) bool { return true }); no.status != 0 {
		t.Errorf("an allowed origin: %+v", no)
	}
	asked := 0
	refuse := func(*http.Request) bool { asked++; return false }
	for origins, want := range map[string]int{"": 0, "Origin: http://example.com": 403, "Origin: ": 403} {
		if asked = 0; origins == "" {
			r = request(t, get)
		} else {
			r = request(t, get, origins)
		}
		if _, no := readHandshake(r, nil, false, refuse); no.status != want || (asked == 1) != (want == 403) {
			t.Errorf("%q and a rule that refuses everything: %+v, asked %d times", origins, no, asked)
		}
	}
}

// A refused origin is told with the host that it was compared with and the field that decides,
// and a client cannot make the answer long or write terminal escapes into it.
func TestRefusedOriginIsNamed(t *testing.T) {
	no := func(*http.Request) bool { return false }
	for _, c := range []struct {
		name   string
		origin func(*http.Request) bool
		lines  []string
		says   []string
	}{
		{"a proxy that drops the port", nil, []string{"Host: example.com", "Origin: http://example.com:8080"}, []string{`"http://example.com:8080"`, `"example.com"`, "Upgrader.Origins"}},
		{"two origins", nil, []string{"Origin: http://a", "Origin: http://b"}, []string{`"http://a, http://b"`, `"example.com"`, "Upgrader.Origins"}},
		{"one's own rule", no, []string{"Origin: http://example.org"}, []string{`"http://example.org"`, `"example.com"`, "Upgrader.Origins"}},
		{"a long one", nil, []string{"Origin: http://" + strings.Repeat("a", 100_000)}, []string{`"http://aaa`, `"example.com"`, "Upgrader.Origins"}},
		{"escapes", nil, []string{"Origin: http://é\x1b[31m"}, []string{`"http://\u00e9\x1b[31m"`, `"example.com"`, "Upgrader.Origins"}},
	} {
		r := request(t, get)
		for _, line := range c.lines {
			key, value, _ := strings.Cut(line, ": ")
			if key == "Host" {
				r.Host = value
				continue
			}
			r.Header[key] = append(r.Header[key], value)
		}
		_, refused := readHandshake(r, nil, false, c.origin)
		if refused.status != 403 || len(refused.text) > 600 {
			t.Errorf("%s: status %d and %d bytes", c.name, refused.status, len(refused.text))
		}
		for _, want := range c.says {
			if !strings.Contains(refused.text, want) {
				t.Errorf("%s: %q does not contain %q", c.name, refused.text, want)
			}
		}
	}
}

func TestSubprotocol(t *testing.T) {
	for _, test := range []struct {
		speaks []string
		asked  []string
		want   string
	}{
		{nil, []string{"a"}, ""},
		{[]string{"a"}, nil, ""},
		{[]string{"a", "b"}, []string{"b, a"}, "a"},
		{[]string{"a", "b"}, []string{"c", "b"}, "b"},
		{[]string{"a"}, []string{"A"}, ""},
	} {
		var lines []string
		for _, a := range test.asked {
			lines = append(lines, "Sec-WebSocket-Protocol: "+a)
		}
		h, no := readHandshake(request(t, get, lines...), test.speaks, false, nil)
		if no.status != 0 || h.protocol != test.want {
			t.Errorf("%v of %v: %q, %+v; want %q", test.asked, test.speaks, h.protocol, no, test.want)
		}
	}
}

func TestDeflateOffers(t *testing.T) {
	const both = "permessage-deflate; server_no_context_takeover; client_no_context_takeover"
	for _, test := range []struct {
		offer, answer string
		window        uint8
	}{
		{"", "", 0},
		{"x-webkit-deflate-frame", "", 0},
		{"permessage-deflate", both, 15},
		{both, both, 15},
		{"permessage-deflate; client_max_window_bits", both, 15},
		{"permessage-deflate; client_max_window_bits=8", both, 15},
		{"permessage-deflate; server_max_window_bits=9", both + "; server_max_window_bits=9", 9},
		{"permessage-deflate; server_max_window_bits=\"10\"", both + "; server_max_window_bits=10", 10},
		{"permessage-deflate; server_max_window_bits=15", both + "; server_max_window_bits=15", 15},
		{"permessage-deflate; server_max_window_bits", "", 0},
		{"permessage-deflate; server_max_window_bits=7", "", 0},
		{"permessage-deflate; server_max_window_bits=16", "", 0},
		{"permessage-deflate; server_max_window_bits=09", "", 0},
		{"permessage-deflate; client_max_window_bits=7", "", 0},
		{"permessage-deflate; client_max_window_bits=x", "", 0},
		{"permessage-deflate; server_no_context_takeover=1", "", 0},
		{"permessage-deflate; client_no_context_takeover=1", "", 0},
		{"permessage-deflate; unknown", "", 0},
		{"permessage-deflate; client_max_window_bits; client_max_window_bits", "", 0},
		{"permessage-deflate; unknown, permessage-deflate; server_max_window_bits=7, permessage-deflate", both, 15},
		{"permessage-deflate; server_max_window_bits=10, permessage-deflate", both + "; server_max_window_bits=10", 10},
	} {
		h, no := readHandshake(request(t, get, "Sec-WebSocket-Extensions: "+test.offer), nil, true, nil)
		if no.status != 0 || h.extensions != test.answer || h.window != test.window {
			t.Errorf("%s: %q, window %d, %+v; want %q, %d", test.offer, h.extensions, h.window, no, test.answer, test.window)
		}
		if h, _ := readHandshake(request(t, get, "Sec-WebSocket-Extensions: "+test.offer), nil, false, nil); h.window != 0 || h.extensions != "" {
			t.Errorf("%s: negotiated %q without compression", test.offer, h.extensions)
		}
	}
}

// answer parses a server's response.
func answer(t *testing.T, text []byte) *http.Response {
	t.Helper()
	r, err := http.ReadResponse(bufio.NewReader(strings.NewReader(string(text))), nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSwitching(t *testing.T) {
	key := newKey()
	r := request(t, get, "Sec-WebSocket-Key: "+key, "Sec-WebSocket-Protocol: chat", "Sec-WebSocket-Extensions: "+deflateOffer)
	server, no := readHandshake(r, []string{"chat"}, true, nil)
	if no.status != 0 {
		t.Fatal(no)
	}
	text := appendSwitching([]byte("before"), server, http.Header{
		"Set-Cookie": {"a=b"}, "Upgrade": {"x"}, "Content-Length": {"7"}, "Sec-Websocket-Accept": {"x"}, "X-Split": {"a\r\nInjected: b"},
	})
	text = text[len("before"):]
	got := answer(t, text)
	if got.Header.Get("Set-Cookie") != "a=b" || got.Header.Get("Injected") != "" || len(got.Header["Upgrade"]) != 1 {
		t.Errorf("the answer is %q", text)
	}
	client, no := readSwitching(got, key, []string{"chat"}, true)
	if no.status != 0 || client.protocol != "chat" || client.window != mostWindow {
		t.Errorf("the client reads %+v, %+v of %q", client, no, text)
	}
	if plain := appendSwitching(nil, handshake{accept: "x"}, nil); strings.Count(string(plain), "\r\n") != 5 {
		t.Errorf("the shortest answer is %q", plain)
	}
}

func TestSwitchingFaults(t *testing.T) {
	const key = "dGhlIHNhbXBsZSBub25jZQ=="
	good := "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
	for _, test := range []struct {
		name, text string
		ok         bool
	}{
		{"good", good, true},
		{"another status", strings.Replace(good, "101", "200", 1), false},
		{"another protocol", strings.Replace(good, "websocket", "h2c", 1), false},
		{"no Connection", strings.Replace(good, "Connection", "X", 1), false},
		{"another key", strings.Replace(good, "s3p", "S3p", 1), false},
		{"no key", strings.Replace(good, "Sec-WebSocket-Accept", "X", 1), false},
		{"a subprotocol that was asked for", good + "Sec-WebSocket-Protocol: chat\r\n", true},
		{"another subprotocol", good + "Sec-WebSocket-Protocol: x\r\n", false},
		{"two subprotocols", good + "Sec-WebSocket-Protocol: chat\r\nSec-WebSocket-Protocol: chat\r\n", false},
		{"an extension", good + "Sec-WebSocket-Extensions: x\r\n", false},
		{"a malformed extension", good + "Sec-WebSocket-Extensions: ;\r\n", false},
		{"deflate", good + "Sec-WebSocket-Extensions: " + deflateNoTakeovers + "\r\n", true},
		{"deflate with a smaller window", good + "Sec-WebSocket-Extensions: " + deflateNoTakeovers + "; server_max_window_bits=9\r\n", true},
		{"deflate with a window for the client", good + "Sec-WebSocket-Extensions: " + deflateNoTakeovers + "; client_max_window_bits=9\r\n", true},
		{"deflate with any window for the client", good + "Sec-WebSocket-Extensions: " + deflateOffer + "\r\n", false},
		{"deflate with a window that there is not", good + "Sec-WebSocket-Extensions: " + deflateNoTakeovers + "; client_max_window_bits=16\r\n", false},
		{"deflate that remembers", good + "Sec-WebSocket-Extensions: permessage-deflate\r\n", false},
		{"deflate twice", good + "Sec-WebSocket-Extensions: " + deflateNoTakeovers + ", " + deflateNoTakeovers + "\r\n", false},
	} {
		_, no := readSwitching(answer(t, []byte(test.text+"\r\n")), key, []string{"chat"}, true)
		if (no.status == 0) != test.ok || no.status != 0 && no.text == "" {
			t.Errorf("%s: %+v, want ok %v", test.name, no, test.ok)
		}
	}
	for bits, want := range map[string]uint8{"": mostWindow, "; client_max_window_bits=9": 9, "; server_max_window_bits=9": mostWindow} {
		r := answer(t, []byte(good+"Sec-WebSocket-Extensions: "+deflateNoTakeovers+bits+"\r\n\r\n"))
		if h, no := readSwitching(r, key, nil, true); h.window != want || no.status != 0 {
			t.Errorf("with %q the client's window is %d, want %d; %+v", bits, h.window, want, no)
		}
	}
	r := answer(t, []byte(good+"Sec-WebSocket-Extensions: "+deflateNoTakeovers+"\r\n\r\n"))
	if _, no := readSwitching(r, key, nil, false); no.status == 0 {
		t.Error("the client accepts compression that it has not offered")
	}
}

func FuzzExtensions(f *testing.F) {
	f.Add(deflateOffer + `, x; y="z", a`)
	f.Fuzz(func(t *testing.T, header string) {
		list, ok := parseExtensions([]string{header})
		if !ok && len(list) > 0 {
			t.Fatal("a malformed header yields a list")
		}
		again := ""
		for _, e := range list {
			if !isToken(e.name) {
				t.Fatalf("a name that is not a token: %q", e.name)
			}
			again += "," + e.name
			for _, p := range e.parameters {
				again += ";" + p.name
				if p.hasValue {
					again += "=" + p.value
				}
			}
		}
		if back, ok := parseExtensions([]string{again}); !ok || len(back) != len(list) {
			t.Fatalf("%q became %q, which is read as %v, %v", header, again, back, ok)
		}
	})
}

// FuzzHandshake checks that every value of the handshake's headers is either refused with one of
// four statuses, or leads to a handshake.
func FuzzHandshake(f *testing.F) {
	const key = "dGhlIHNhbXBsZSBub25jZQ=="
	f.Add("websocket", "Upgrade", key, "13", "chat", deflateOffer, "http://example.com")
	f.Add("a, WebSocket", "keep-alive, Upgrade", key, "13", "chat, x", "permessage-deflate; server_max_window_bits=8", "")
	f.Fuzz(func(t *testing.T, upgrade, connection, key, version, protocol, extensions, origin string) {
		r := &http.Request{Method: "GET", ProtoMajor: 1, ProtoMinor: 1, Host: "example.com", Header: http.Header{
			"Upgrade": {upgrade}, "Connection": {connection}, keyHeader: {key}, versionHeader: {version},
			protocolHeader: {protocol}, extensionsHeader: {extensions}, "Origin": {origin},
		}}
		h, no := readHandshake(r, []string{"chat"}, true, nil)
		switch no.status {
		case 400, 403, 426:
			if h != (handshake{}) || no.text == "" {
				t.Fatalf("refused with %+v and %+v", h, no)
			}
			return
		case 0:
		default:
			t.Fatalf("refused with %+v", no)
		}
		nonce, err := base64.StdEncoding.DecodeString(key)
		if err != nil || len(nonce) != 16 || version != "13" || !strings.Contains(strings.ToLower(upgrade), "websocket") ||
			!strings.Contains(strings.ToLower(connection), "upgrade") || !strings.Contains(strings.ToLower(origin), "example.com") {
			t.Fatalf("accepted %+v", r.Header)
		}
		if h.protocol != "" && !strings.Contains(protocol, "chat") || h.window != 0 && (h.window < 8 || h.window > 15 || !strings.Contains(extensions, deflateName)) {
			t.Fatalf("negotiated %+v for %q and %q", h, protocol, extensions)
		}
		answer(t, appendSwitching(nil, h, nil))
	})
}
