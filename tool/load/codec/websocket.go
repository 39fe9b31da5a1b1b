package codec

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha1"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hone-go/hone/websocket"
)

// WebSocket is a target of messages over WebSocket (RFC 6455). The plan's content is sent as one
// message again and again, and each must be answered with one message, in order; with the plan's
// Echo it must be the same. Content that is UTF-8 is sent as text, other content as binary.
//
// Pings are answered, also on the connections of Plan.Idle. A Close frame is answered, and the
// connection opened again, as for the other targets: what was unanswered fails as Closed. A close
// code that reports a fault of the client (1002, 1003, 1007, 1009, 1010) ends the run, as does an
// unsolicited message. No extensions are offered, so nothing is compressed. The run closes its own
// connections without a Close frame.
//
// BenchmarkWebSocketCodec: a message of 64 bytes takes 30 to 100 ns, sending and receiving; no
// allocations.
type WebSocket struct {
	// URL is ws://HOST[:PORT][/PATH][?QUERY], the same with wss, or over a unix socket
	// ws://unix:/SOCKET[:/PATH]. Required.
	URL string
	// Header is sent with the handshake, in addition to Host, User-Agent: hone and what the
	// handshake needs; it can replace the first two.
	Header http.Header
	// AnswerLimit is the longest message accepted. Zero: 16 MiB. Memory grows with the
	// bytes received, never with the length claimed.
	AnswerLimit int
	// TLS is for wss, as HTTP.TLS is for https.
	TLS *tls.Config
}

// wsTarget is a validated WebSocket.
type wsTarget struct {
	site
	before, behind []byte // the handshake request, before and after its key
	limit          int
	text           bool // requests are text
}

// Dial opens one connection, including the handshakes.
func (w WebSocket) Dial(ctx context.Context) (net.Conn, error) {
	t, err := w.target()
	if err != nil {
		return nil, err
	}
	return t.Dial(ctx)
}

// Codec returns the state for one connection; its requests are binary unless Run calls it. It
// panics when the fields are invalid; Run reports that as an error before.
func (w WebSocket) Codec() Codec {
	t, err := w.target()
	if err != nil {
		panic(err.Error())
	}
	return t.Codec()
}

// String returns the URL.
func (w WebSocket) String() string { return public(w.URL) }

// Prepare encodes the handshake.
func (w WebSocket) Prepare(l Load) (Route, error) {
	if len(l.Content) > MostAnswer {
		return Route{}, badTarget(fmt.Sprintf("content of %d bytes in a message of WebSocket", len(l.Content)), fmt.Sprintf("send %d bytes at most", MostAnswer))
	}
	t, err := w.target()
	if err != nil {
		return Route{}, err
	}
	if t.text = utf8.Valid(l.Content); l.Traffic != nil {
		t.text = l.Traffic.IsText()
	}
	return t.Prepare(l)
}

// Prepare returns the way to the target.
func (t *wsTarget) Prepare(Load) (Route, error) {
	r := t.route(t)
	r.Pings = true
	return r, nil
}

const keyHeader = "Sec-Websocket-Key"

func (w WebSocket) target() (*wsTarget, error) {
	where, err := locate(w.URL, "ws", "wss", w.TLS)
	if err != nil {
		return nil, err
	}
	header, host, err := where.header(w.Header)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"Connection", keyHeader, "Sec-Websocket-Version", "Sec-Websocket-Extensions"} {
		if header.Values(name) != nil {
			return nil, badTarget("the header "+name, "leave it out: the handshake has its own")
		}
	}
	header.Set("Connection", "Upgrade")
	header.Set("Upgrade", "websocket")
	header.Set("Sec-Websocket-Version", "13")
	const place = "KEY"
	header.Set(keyHeader, place)
	t := &wsTarget{site: where, limit: w.AnswerLimit}
	t.before, t.behind, _ = bytes.Cut(where.head(http.MethodGet, host, header), []byte(keyHeader+": "+place))
	t.before = append(slices.Clip(t.before), keyHeader+": "...)
	if t.limit <= 0 {
		t.limit = MostAnswer
	}
	return t, nil
}

// Dial opens one connection.
func (t *wsTarget) Dial(ctx context.Context) (net.Conn, error) {
	nc, err := t.site.Dial(ctx)
	if err != nil {
		return nil, err
	}
	return greet(ctx, nc, t.upgrade)
}

// Codec returns the state for one connection.
func (t *wsTarget) Codec() Codec {
	c := &wsCodec{frames: websocket.Frames{MessageSize: t.limit}, kind: websocket.Binary}
	if t.text {
		c.kind = websocket.Text
	}
	return c
}

// upgrade performs the WebSocket handshake.
func (t *wsTarget) upgrade(nc net.Conn) error {
	var nonce [16]byte
	rand.Read(nonce[:])
	key := base64.StdEncoding.EncodeToString(nonce[:])
	if _, err := nc.Write(slices.Concat(t.before, []byte(key), t.behind)); err != nil {
		return err
	}
	return await(nc, "WebSocket", func(in []byte) (used int, err error) {
		end := bytes.Index(in, []byte("\r\n\r\n"))
		if end < 0 {
			return 0, nil
		}
		end += len("\r\n\r\n")
		return end, accepted(in[:end], key)
	})
}

// accepted returns why a server's answer does not accept the upgrade; nil when it does.
func accepted(head []byte, key string) error {
	const asked = "GET"
	answer, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(head)), &http.Request{Method: asked})
	if err != nil {
		return notHTTP(head)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusSwitchingProtocols {
		return &Error{
			Kind: Refused, What: fmt.Sprintf("the server answers the handshake of WebSocket with %s", answer.Status),
			Try: "check the path, and which headers the server wants, as in -H 'Origin: https://example.com'",
		}
	}
	const suffix = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11" // RFC 6455, 1.3
	sum := sha1.Sum([]byte(key + suffix))
	switch {
	case !strings.EqualFold(answer.Header.Get("Upgrade"), "websocket"):
		return malformed("it upgrades to %q", answer.Header.Get("Upgrade"))
	case answer.Header.Get("Sec-Websocket-Accept") != base64.StdEncoding.EncodeToString(sum[:]):
		return malformed("its Sec-WebSocket-Accept is not that of our key")
	case answer.Header.Get("Sec-Websocket-Extensions") != "":
		return malformed("it uses the extensions %q, and none were offered", answer.Header.Get("Sec-Websocket-Extensions"))
	}
	return nil
}
