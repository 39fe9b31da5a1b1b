package framed_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/wire"
)

// proxyV2 returns a header of version 2.
func proxyV2(command, family byte, body []byte) []byte {
	b := append([]byte("\r\n\r\n\x00\r\nQUIT\n"), command, family)
	return append(binary.BigEndian.AppendUint16(b, uint16(len(body))), body...)
}

// proxyV2From returns a header of version 2 with the source src.
func proxyV2From(src string) []byte {
	from := netip.MustParseAddrPort(src)
	family, to := byte(0x11), []byte{127, 0, 0, 1}
	if from.Addr().Is6() {
		family, to = 0x21, make([]byte, 16)
	}
	body := append(append([]byte{}, from.Addr().AsSlice()...), to...)
	body = binary.BigEndian.AppendUint16(body, from.Port())
	return proxyV2(0x21, family, append(body, 0, 80))
}

// loopback trusts all clients of these tests.
func loopback() []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }

// tellsAddress answers with the client's address.
func tellsAddress(c framed.Call, dst, _ []byte) ([]byte, error) {
	return c.Conn().RemoteAddr().AppendTo(dst), nil
}

func TestTrustedProxyTellsTheAddressHoweverItsHeaderIsSplit(t *testing.T) {
	const own = "" // the socket's
	headers := []struct {
		name   string
		header []byte
		want   string
	}{
		{"v1 TCP4", []byte("PROXY TCP4 203.0.113.7 198.51.100.1 4711 80\r\n"), "203.0.113.7:4711"},
		{"v1 TCP6", []byte("PROXY TCP6 2001:db8::7 2001:db8::1 4711 80\r\n"), "[2001:db8::7]:4711"},
		{"v1 UNKNOWN", []byte("PROXY UNKNOWN\r\n"), own},
		{"v1 UNKNOWN with words", []byte("PROXY UNKNOWN whatever it says\r\n"), own},
		{"v2 IPv4", proxyV2From("203.0.113.8:4712"), "203.0.113.8:4712"},
		{"v2 IPv6", proxyV2From("[2001:db8::8]:4712"), "[2001:db8::8]:4712"},
		{"v2 with TLVs", proxyV2(0x21, 0x11, append([]byte{203, 0, 113, 9, 127, 0, 0, 1, 0, 99, 0, 80}, make([]byte, 30)...)), "203.0.113.9:99"},
		{"v2 LOCAL", proxyV2(0x20, 0x00, nil), own},
		{"v2 LOCAL with an address", proxyV2(0x20, 0x11, proxyV2From("203.0.113.8:4712")[16:]), own},
	}
	// By default an engine gets every third split, and another engine the next one.
	step := testrun.Sized(3, 1)
	var engines atomic.Int64
	run(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(tellsAddress), TrustedProxies: loopback()}
		addr := serve(t, s)
		first := int(engines.Add(1)) % step
		for _, h := range headers {
			stream := append(append([]byte{}, h.header...), submit(1, "first")...)
			for at := first; at <= len(stream); at += step {
				before := s.Stats().BytesIn
				p := dial(t, addr)
				want := h.want
				if want == own {
					want = p.LocalAddr().String()
				}
				p.send(stream[:at])
				awaitRead(s, before+uint64(at))
				p.send(stream[at:])
				if got := p.packet(); got.ID != 1 || string(got.Content) != want {
					t.Fatalf("%s cut at byte %d: got %v %v %q, want the address %s", h.name, at, got.Command, got.Result, got.Content, want)
				}
				p.send(submit(2, "and one more"))
				if got := p.packet(); got.ID != 2 || string(got.Content) != want {
					t.Fatalf("%s cut at byte %d: then got %v %v %q", h.name, at, got.Command, got.Result, got.Content)
				}
				p.Close()
			}
		}
	})
}

// Every place that reads the address gets the one in the header.
func TestToldAddressIsTheAddressEverywhere(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		opened, closed := make(chan string, 1), make(chan string, 1)
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo), TrustedProxies: loopback(),
			ConnContext: func(ctx context.Context, c framed.Conn) context.Context {
				opened <- c.RemoteAddr().String()
				return ctx
			},
			OnClose: func(c framed.Conn, _ engine.Reason) { closed <- c.RemoteAddr().String() },
		}
		p := dial(t, serve(t, s))
		p.send(append(proxyV2From("203.0.113.8:4712"), submit(1, "")...))
		p.want(ack(1, ""))
		p.Close()
		for _, seen := range []<-chan string{opened, closed} {
			if got := take(t, "an address", seen); got != "203.0.113.8:4712" {
				t.Errorf("the address was %s, want the one in the header", got)
			}
		}
	})
}

// From untrusted clients the header is a message, and an invalid one.
func TestForgedProxyHeaderIsJustBadBytes(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(tellsAddress),
			TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("127.0.0.2/32")}}
		addr := serve(t, s)
		for i, header := range [][]byte{[]byte("PROXY TCP4 10.0.0.1 127.0.0.1 1 80\r\n"), proxyV2From("10.0.0.1:1"), []byte("PROXY UNKNOWN\r\n")} {
			p := dial(t, addr)
			p.send(append(header, submit(1, "")...))
			p.wantRefusal(wire.TooLarge)
			p.Close()
			ended(t, s, engine.TooLarge, uint64(i)+1)
		}
		p := dial(t, addr)
		p.send(submit(1, ""))
		if got := p.packet(); string(got.Content) != p.LocalAddr().String() {
			t.Errorf("the address is %q, want the socket's", got.Content)
		}
	})
}

// A trusted proxy without a valid header is refused: otherwise every limit and every log
// line would apply to the proxy.
func TestBadHeaderFromATrustedProxyIsRefused(t *testing.T) {
	whole := proxyV2From("203.0.113.8:4712")
	bad := map[string][]byte{
		"no header":               submit(1, "straight to it"),
		"nonsense":                []byte("HELLO\r\n"),
		"unknown family":          []byte("PROXY TCP5 203.0.113.7 198.51.100.1 4711 80\r\n"),
		"no address":              []byte("PROXY TCP4 somewhere 198.51.100.1 4711 80\r\n"),
		"port out of range":       []byte("PROXY TCP4 203.0.113.7 198.51.100.1 65536 80\r\n"),
		"no CR":                   []byte("PROXY TCP4 203.0.113.7 198.51.100.1 4711 80\n"),
		"a line without end":      append([]byte("PROXY UNKNOWN "), bytes.Repeat([]byte("x"), 200)...),
		"v2 with a broken magic":  append(append([]byte{}, whole[:11]...), append([]byte{'?'}, whole[12:]...)...),
		"v2 version 3":            proxyV2(0x31, 0x11, make([]byte, 12)),
		"v2 too short for IPv4":   proxyV2(0x21, 0x11, make([]byte, 11)),
		"v2 claiming 64 KiB":      proxyV2(0x21, 0x11, nil)[:14:14],
		"a second header":         append(append([]byte{}, whole...), whole...),
		"TLS where PROXY belongs": clientHello(t),
	}
	bad["v2 claiming 64 KiB"] = append(bad["v2 claiming 64 KiB"], 0xff, 0xff)
	run(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(tellsAddress), TrustedProxies: loopback()}
		addr := serve(t, s)
		counted := map[engine.Reason]uint64{}
		for name, header := range bad {
			why, code := engine.BadProxyHeader, wire.Malformed
			if name == "a second header" {
				why, code = engine.TooLarge, wire.TooLarge // after the first it is ordinary input
			}
			p := dial(t, addr)
			poured := p.pour(append(append([]byte{}, header...), submit(1, "behind it")...))
			if got := p.packet(); got.Command != wire.ConnAck || got.ID != 0 || got.Result != code {
				t.Errorf("%s: got %+v, want ConnAck 0 with result %v", name, got, code)
			}
			p.wantEnd()
			<-poured
			p.Close()
			counted[why]++
			ended(t, s, why, counted[why])
		}
		wantCounted(t, s, counted)
		if n := s.Stats().Requests; n != 0 {
			t.Errorf("%d requests reached a handler", n)
		}
	})
}

// However it is split, a header has the time of one message.
func TestTrickledProxyHeaderIsTooSlow(t *testing.T) {
	unknown := append([]byte("PROXY UNKNOWN "), bytes.Repeat([]byte("x"), 80)...)
	for _, c := range []struct {
		name   string
		header []byte
		piece  int
		every  time.Duration
	}{
		{"a byte and silence", []byte("P"), 1, 0},
		{"v1, all but the end", []byte("PROXY TCP4 203.0.113.7 198.51.100.1 4711 80\r"), 100, 0},
		{"v1, two bytes now and then", unknown, 2, 4 * time.Second},
		{"v1, byte by byte", []byte("PROXY TCP6 2001:db8::7 2001:db8::1 4711 80\r\n"), 1, time.Second},
		{"v2, byte by byte", proxyV2From("[2001:db8::7]:4711"), 1, time.Second},
		{"v2, all but the end", proxyV2From("203.0.113.8:4712")[:27], 100, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			onFakeTime(t, func(t *testing.T, e engine.Engine) {
				s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo), TrustedProxies: loopback()}
				p := serveInMemory(t, s).dial(t)
				begun := time.Now()
				p.trickle(c.header, c.piece, c.every)
				p.wantRefusal(wire.TooSlow)
				within(t, begun, 5*time.Second)
				p.Close()
				ended(t, s, engine.FrameTimeout, 1)
			})
		})
	}
	waiting.run(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo), TrustedProxies: loopback(), Limits: engine.Limits{FrameTime: frameTime}}
		addr := serve(t, s)
		begun := time.Now() // the header's timer starts with the connection
		p := dial(t, addr)
		p.trickle(unknown, 2, 20*time.Millisecond)
		p.wantRefusal(wire.TooSlow)
		between(t, begun, frameTime, 2*frameTime)
		p.Close()
		ended(t, s, engine.FrameTimeout, 1)
	})
}

func TestConnsPerAddressCountsTheToldAddress(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo), TrustedProxies: loopback(), Limits: engine.Limits{ConnsPerAddress: 2}}
		addr := serve(t, s)
		from := func(ip string, port int) *peer {
			p := dial(t, addr)
			p.send(append(proxyV2From(fmt.Sprintf("%s:%d", ip, port)), submit(1, ip)...))
			return p
		}
		first, second := from("203.0.113.7", 1), from("203.0.113.7", 2)
		first.want(ack(1, "203.0.113.7"))
		second.want(ack(1, "203.0.113.7"))
		third := from("203.0.113.7", 3)
		third.wantRefusal(wire.Overloaded)
		third.Close()
		ended(t, s, engine.TooManyPerAddress, 1)
		from("203.0.113.8", 4).want(ack(1, "203.0.113.8")) // another client behind the same proxy
		first.exchange(2, "still here")
		first.Close()
		ended(t, s, engine.PeerClosed, 1)
		eventually(t, "it is no longer counted", func() bool { return s.Stats().Open == 2 })
		from("203.0.113.7", 5).want(ack(1, "203.0.113.7"))
		second.exchange(2, "still here")
	})
}

func TestConnsPerAddressCountsTheSocketsAddress(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo), Limits: engine.Limits{ConnsPerAddress: 2}}
		addr := serve(t, s)
		from := func(ip string) *peer {
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
			nc, err := d.Dial("tcp", addr)
			if err != nil {
				t.Skipf("needs all of 127.0.0.0/8 to be local, as on Linux: %v", err)
			}
			return peerOf(t, nc)
		}
		first, second := from("127.0.0.2"), from("127.0.0.2")
		first.exchange(1, "first")
		second.exchange(1, "second")
		for n := range uint64(3) {
			third := from("127.0.0.2")
			third.wantRefusal(wire.Overloaded)
			third.Close()
			ended(t, s, engine.TooManyPerAddress, n+1)
		}
		other := from("127.0.0.3")
		other.exchange(1, "from elsewhere")
		second.Close()
		eventually(t, "it is no longer counted", func() bool { return s.Stats().Open == 2 })
		from("127.0.0.2").exchange(1, "again")
		first.exchange(2, "still here")
		other.exchange(2, "still here")
	})
}
