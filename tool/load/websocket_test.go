package load

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/tool/load/codec"
)

// wsSide is the server's side of a connection, written from RFC 6455 alone.
type wsSide struct {
	nc  net.Conn
	in  *bufio.Reader
	key string
}

// wsServer upgrades every connection, and then calls serve.
func wsServer(tb testing.TB, serve func(*wsSide)) codec.WebSocket {
	tb.Helper()
	frames := serveWith(tb, "tcp", func(nc net.Conn) {
		side := &wsSide{nc: nc, in: bufio.NewReader(nc)}
		if side.upgrade() == nil {
			serve(side)
		}
	})
	return codec.WebSocket{URL: "ws://" + frames.Address + "/echo"}
}

func (s *wsSide) upgrade() error {
	r, err := http.ReadRequest(s.in)
	if err != nil {
		return err
	}
	s.key = r.Header.Get("Sec-WebSocket-Key")
	nonce, err := base64.StdEncoding.DecodeString(s.key)
	if err != nil || len(nonce) != 16 || r.Header.Get("Upgrade") != "websocket" || r.Header.Get("Connection") != "Upgrade" || r.Header.Get("Sec-WebSocket-Version") != "13" {
		return fmt.Errorf("no handshake: %v", r.Header)
	}
	_, err = io.WriteString(s.nc, switching(s.key))
	return err
}

func switching(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + base64.StdEncoding.EncodeToString(sum[:]) + "\r\n\r\n"
}

// read reads a frame, which must be masked.
func (s *wsSide) read() (first byte, payload []byte, err error) {
	var head [2]byte
	if _, err := io.ReadFull(s.in, head[:]); err != nil {
		return 0, nil, err
	}
	n := uint64(head[1] & 0x7f)
	switch n {
	case 126:
		var length [2]byte
		_, err = io.ReadFull(s.in, length[:])
		n = uint64(binary.BigEndian.Uint16(length[:]))
	case 127:
		var length [8]byte
		_, err = io.ReadFull(s.in, length[:])
		n = binary.BigEndian.Uint64(length[:])
	}
	var key [4]byte
	if err == nil && head[1]&0x80 == 0 {
		err = fmt.Errorf("a frame is not masked")
	}
	if err == nil {
		_, err = io.ReadFull(s.in, key[:])
	}
	if err != nil {
		return 0, nil, err
	}
	payload = make([]byte, n)
	_, err = io.ReadFull(s.in, payload)
	for i := range payload {
		payload[i] ^= key[i%4]
	}
	return head[0], payload, err
}

// wsFrameOf returns a frame as servers send it.
func wsFrameOf(first byte, payload []byte) []byte {
	b := []byte{first}
	switch n := len(payload); {
	case n < 126:
		b = append(b, byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 127), uint64(n))
	}
	return append(b, payload...)
}

// echoWS answers every message with answer, until a read fails.
func echoWS(answer func(s *wsSide, first byte, payload []byte) []byte) func(*wsSide) {
	return func(s *wsSide) {
		for {
			first, payload, err := s.read()
			if err != nil {
				return
			}
			if first&0x08 != 0 {
				continue // a pong
			}
			if _, err := s.nc.Write(answer(s, first, payload)); err != nil {
				return
			}
		}
	}
}

func TestWebSocketEchoes(t *testing.T) {
	var kinds [2]atomic.Int64
	whole := func(_ *wsSide, first byte, payload []byte) []byte {
		kinds[first&1].Add(1) // text is 1, binary 2
		return wsFrameOf(first, payload)
	}
	fragments := func(_ *wsSide, first byte, payload []byte) []byte {
		half := len(payload) / 2
		return slices.Concat(wsFrameOf(first&^0x80, payload[:half]), wsFrameOf(0x89, []byte("p")), wsFrameOf(0x00, nil), wsFrameOf(0x80, payload[half:]))
	}
	for name, c := range map[string]struct {
		plan   Plan
		answer func(*wsSide, byte, []byte) []byte
	}{
		"one at a time":  {Plan{Conns: 3}, whole},
		"many in flight": {Plan{Conns: 2, Depth: 16}, whole},
		"open loop":      {Plan{Conns: 2, Rate: 2000, MaxLag: time.Second}, whole},
		"nothing":        {Plan{Conns: 1, Content: []byte{}}, whole},
		"16-bit length":  {Plan{Conns: 2, Depth: 3, Size: 126}, whole},
		"64-bit length":  {Plan{Conns: 2, Size: 1 << 16}, whole},
		"many sizes":     {Plan{Conns: 2, Depth: 4, Sizes: sizesOf(t, "uniform:0..70000")}, whole},
		"fragments":      {Plan{Conns: 2, Depth: 4, Size: 300}, fragments},
		"binary":         {Plan{Conns: 1, Content: []byte{0xff, 0, 0xfe}}, whole},
	} {
		t.Run(name, func(t *testing.T) {
			p := c.plan
			p.Target, p.Echo, p.Requests = wsServer(t, echoWS(c.answer)), true, 100
			binary := kinds[0].Load()
			r := measured(t, p)
			if r.Requests == 0 || r.Errors["total"] != 0 || r.Reconnects != 0 {
				t.Errorf("%d requests, errors %v, %d reconnects", r.Requests, r.Errors, r.Reconnects)
			}
			if got := kinds[0].Load() > binary; got != (name == "binary") {
				t.Errorf("the content went out as binary: %v", got)
			}
		})
	}
}

func TestWebSocketWrongAnswers(t *testing.T) {
	var n, wrong atomic.Int64
	target := wsServer(t, echoWS(func(_ *wsSide, first byte, payload []byte) []byte {
		if n.Add(1)%10 == 0 {
			wrong.Add(1)
			payload[0] ^= 1
		}
		return wsFrameOf(first, payload)
	}))
	r := measured(t, Plan{Target: target, Echo: true, AllowErrors: true, Requests: 300})
	if got := r.Errors[codec.WrongContent.String()]; got == 0 || got != wrong.Load() || got != r.Errors["total"] {
		t.Errorf("errors %v, and %d were wrong", r.Errors, wrong.Load())
	}
}

// Pings are answered with their payload, on connections of the load and on idle ones.
func TestWebSocketAnswersPings(t *testing.T) {
	const conns, idle = 2, 5
	var ponged atomic.Int64
	target := wsServer(t, func(s *wsSide) {
		for first := true; ; {
			kind, payload, err := s.read()
			switch {
			case err != nil:
				return
			case kind == 0x8a && string(payload) == "are you there?":
				ponged.Add(1)
			case kind != 0x81:
				t.Errorf("a frame of kind %#x with %q", kind, payload)
				return
			default:
				s.nc.Write(wsFrameOf(kind, payload))
				if first { // after its answer; earlier pushes would count as answers
					s.nc.Write(wsFrameOf(0x89, []byte("are you there?")))
				}
				first = false
			}
		}
	})
	r := measured(t, Plan{Target: target, Conns: conns, Idle: idle, Echo: true, Warmup: -1, For: 100 * time.Millisecond})
	if r.Errors["total"] != 0 || r.Idle.Open != idle || ponged.Load() != conns+idle {
		t.Errorf("errors %v, idle %+v, %d pongs", r.Errors, r.Idle, ponged.Load())
	}
}

// Idle connections skip pushes, in whatever pieces they come, and answer the pings in and after them.
func TestWebSocketIgnores(t *testing.T) {
	c := codec.WebSocket{URL: "ws://127.0.0.1"}.Codec()
	long := bytes.Repeat([]byte("push"), 40_000)
	stream := slices.Concat(wsFrameOf(0x01, long), wsFrameOf(0x89, []byte("ping")), wsFrameOf(0x80, []byte("end")), wsFrameOf(0x82, long[:200]), wsFrameOf(0x89, []byte("ping")))
	for _, piece := range []int{1, 7, 1000, len(stream)} {
		var held []byte
		var a codec.Answer
		for at := 0; at < len(stream); at += piece {
			held = append(held, stream[at:min(at+piece, len(stream))]...)
			for len(held) > 0 {
				used, err := codec.Next(c, &a, held)
				if err != nil && (used == 0 || codec.Explain(err).Kind != codec.WrongID) || a.ID != 0 {
					t.Fatal(err, a.ID)
				}
				if used == 0 {
					break
				}
				held = held[used:]
			}
		}
		s := &wsSide{in: bufio.NewReader(bytes.NewReader(a.Reply))}
		for range 2 {
			if kind, payload, err := s.read(); kind != 0x8a || string(payload) != "ping" || err != nil || len(held) > 0 {
				t.Errorf("in pieces of %d: %#x %q %v, and %d bytes are left", piece, kind, payload, err, len(held))
			}
		}
	}
}

// A message that nobody has asked for ends the run, and a Close within a message the connection.
func TestWebSocketDecodes(t *testing.T) {
	c := codec.WebSocket{URL: "ws://127.0.0.1"}.Codec()
	c.AppendRequest(nil, 7, []byte("x"), nil)
	answer, push := wsFrameOf(0x82, []byte("x")), wsFrameOf(0x82, []byte("y"))
	var a codec.Answer
	if used, err := c.Decode(&a, slices.Concat(answer, push)); used != len(answer) || err != nil || a.ID != 7 || string(a.Content) != "x" {
		t.Fatal(used, err, a)
	}
	if used, err := c.Decode(&a, push); used != len(push) || faultOf(t, err).Kind != codec.WrongID {
		t.Errorf("a push: %d, %v", used, err)
	}
	c = codec.WebSocket{URL: "ws://127.0.0.1"}.Codec()
	c.AppendRequest(nil, 7, []byte("x"), nil)
	in := slices.Concat(wsFrameOf(0x02, []byte("part")), wsFrameOf(0x88, []byte{0x03, 0xe9}))
	a = codec.Answer{}
	if used, err := c.Decode(&a, in); used != len(in) || err != nil || !a.Last || a.ID != 0 || a.Err == nil {
		t.Errorf("a Close within a message: %d of %d, %v, %+v", used, len(in), err, a)
	}
}

// When a server closes normally, the run reconnects, and the server receives a Close frame.
func TestWebSocketReconnects(t *testing.T) {
	var closes, heard atomic.Int64
	target := wsServer(t, func(s *wsSide) {
		for n := 1; ; n++ {
			kind, payload, err := s.read()
			if err != nil {
				return
			}
			s.nc.Write(wsFrameOf(kind, payload))
			if n < 3 {
				continue
			}
			closes.Add(1)
			code := []byte{0x03, 0xe8} // 1000
			s.nc.Write(wsFrameOf(0x88, append(slices.Clone(code), "enough"...)))
			for err == nil {
				kind, payload, err = s.read()
				if kind == 0x88 && bytes.Equal(payload, code) {
					heard.Add(1)
					return
				}
			}
			return
		}
	})
	r := measured(t, Plan{Target: target, Conns: 2, Echo: true, AllowErrors: true, Requests: 300})
	if r.Reconnects == 0 || r.Requests == 0 || r.Errors["total"] != r.Errors[Closed.String()] || heard.Load() == 0 || heard.Load() < closes.Load()-2 {
		t.Errorf("%d reconnects, %d requests, errors %v; %d closes, %d answered", r.Reconnects, r.Requests, r.Errors, closes.Load(), heard.Load())
	}
	// A request that crosses the Close frame has no answer; no other request is lost.
	if lost := r.Errors[Closed.String()]; lost > closes.Load() {
		t.Errorf("%d requests are lost in %d closes", lost, closes.Load())
	}
}

func TestWebSocketEndsWithHostileServers(t *testing.T) {
	for _, c := range []struct {
		name, sends string
		want        Kind
		says        string
	}{
		{"masked", "\x81\x81abcdx", codec.Garbage, "masked"},
		{"reserved bit", "\xa1\x01x", codec.Garbage, "reserved"},
		{"opcode", "\x83\x01x", codec.Garbage, "reserved opcode"},
		{"long control", "\x89\x7e\x00\x7e", codec.Garbage, "control frame"},
		{"fragmented control", "\x09\x01x", codec.Garbage, "fragmented control frame"},
		{"length in too many bytes", "\x81\x7e\x00\x05hello", codec.Garbage, "shortest form"},
		{"negative length", "\x81\x7f\xff\xff\xff\xff\xff\xff\xff\xff", codec.Garbage, "beyond 63 bits"},
		{"continued nothing", "\x80\x01x", codec.Garbage, "without a message to continue"},
		{"message in a message", "\x01\x01x\x81\x01x", codec.Garbage, "before the last one was complete"},
		{"too long", "\x81\x7f\x00\x00\x00\x00\x10\x00\x00\x00", codec.Garbage, "longer than the limit"},
		{"too long in parts", "\x01\x7e\x00\xc8" + strings.Repeat("x", 200) + "\x80\x7e\x00\xc8" + strings.Repeat("x", 200), codec.Garbage, "longer than the limit"},
		{"close of one byte", "\x88\x01x", codec.Garbage, "one-byte"},
		{"close with 1005", "\x88\x02\x03\xed", codec.Garbage, "a code that must not be sent"},
		{"close for too large", "\x88\x07\x03\xf1large", Refused, `1009 "large"`},
		{"text that is not UTF-8", "\x81\x01\xff", codec.Garbage, "not UTF-8"},
		{"twice", "\x81\x01x\x81\x01x", codec.WrongID, "nobody has asked"},
	} {
		t.Run(c.name, func(t *testing.T) {
			target := wsServer(t, func(s *wsSide) {
				s.read()
				io.WriteString(s.nc, c.sends)
				io.Copy(io.Discard, s.nc)
			})
			target.AnswerLimit = 300
			o := runPlan(t, context.Background(), Plan{Target: target, Requests: 1, For: 5 * time.Second, Timeout: 5 * time.Second})
			if c.name == "twice" && o.err == nil {
				t.Skip("the run was over before the second answer was read")
			}
			if e := faultOf(t, o.err); e.Kind != c.want || !strings.Contains(e.What, c.says) {
				t.Errorf("%v: %v, want %v with %q", e.Kind, e, c.want, c.says)
			}
		})
	}
}

func TestWebSocketHandshakes(t *testing.T) {
	for _, c := range []struct {
		name, answer string // KEY is the whole answer as it should be
		want         Kind
		says         string
	}{
		{"refused", "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", Refused, "403 Forbidden"},
		{"other accept", switching("another key"), codec.Garbage, "Sec-WebSocket-Accept"},
		{"other protocol", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n", codec.Garbage, `"h2c"`},
		{"extension", "KEY+Sec-WebSocket-Extensions: permessage-deflate", codec.Garbage, "permessage-deflate"},
		{"no HTTP", "SSH-2.0-OpenSSH\r\n\r\n", codec.Garbage, "SSH"},
		{"greeting", "KEY\x81\x01x", codec.WrongID, "nobody has asked"},
		{"endless", "HTTP/1.1 101 Fine\r\n" + strings.Repeat("A: b\r\n", 20_000), codec.Garbage, "longer than"},
		{"nothing", "", Unreachable, "within the handshake"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				nc, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer nc.Close()
				good := switching(r.Header.Get("Sec-WebSocket-Key"))
				answer := strings.Replace(c.answer, "KEY+", good[:len(good)-2], 1)
				if answer != c.answer {
					answer += "\r\n\r\n"
				}
				io.WriteString(nc, strings.Replace(answer, "KEY", good, 1))
			}))
			defer s.Close()
			_, err := Run(context.Background(), Plan{Target: codec.WebSocket{URL: "ws://" + s.Listener.Addr().String()}, For: time.Second})
			if e := faultOf(t, err); e.Kind != c.want || !strings.Contains(e.What, c.says) {
				t.Errorf("%v: %v, want %v with %q", e.Kind, e, c.want, c.says)
			}
		})
	}
}

func BenchmarkWebSocketCodec(b *testing.B) {
	c := codec.WebSocket{URL: "ws://127.0.0.1"}.Codec()
	content := bytes.Repeat([]byte("x"), 64)
	answer := wsFrameOf(0x82, content)
	var out []byte
	a := new(codec.Answer)
	b.ReportAllocs()
	for b.Loop() {
		out = c.AppendRequest(out[:0], 1, content, nil)
		*a = codec.Answer{}
		if n, err := c.Decode(a, answer); n != len(answer) || err != nil || a.ID != 1 {
			b.Fatal(n, err, a)
		}
	}
}

func TestWebSocketPlans(t *testing.T) {
	for name, target := range map[string]codec.WebSocket{
		"scheme":    {URL: "http://127.0.0.1/"},
		"no host":   {URL: "ws:///echo"},
		"fragment":  {URL: "ws://127.0.0.1/#a"},
		"version":   {URL: "ws://127.0.0.1/", Header: http.Header{"Sec-WebSocket-Version": {"8"}}},
		"extension": {URL: "ws://127.0.0.1/", Header: http.Header{"Sec-Websocket-Extensions": {"x"}}},
		"upgrade":   {URL: "ws://127.0.0.1/", Header: http.Header{"Upgrade": {"x"}}},
	} {
		if _, err := Run(context.Background(), Plan{Target: target}); faultOf(t, err).Kind != BadPlan {
			t.Errorf("%s: %v", name, err)
		}
	}
}
