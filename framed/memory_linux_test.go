package framed_test

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/internal/testrun"
)

// hostility is an attack by many connections on a server's memory.
type hostility struct {
	name    string
	proxies bool // the server expects PROXY headers
	info    bool // informational, without a limit: only with HONE_TEST_ALL=1
	crowd   int  // zero: 250
	do      func(p *memoryPeer)
}

// memoryPeer is a connection with minimal memory on the client's side.
type memoryPeer struct {
	*net.TCPConn
	t *testing.T
}

func (p *memoryPeer) send(b []byte) {
	if _, err := p.Write(b); err != nil {
		p.t.Fatal(err)
	}
}

// discard reads n bytes.
func (p *memoryPeer) discard(n int) {
	var b [512]byte
	for n > 0 {
		k, err := p.Read(b[:min(n, len(b))])
		if err != nil {
			p.t.Fatalf("%d bytes before the end of a reply: %v", n, err)
		}
		n -= k
	}
}

const refusalSize = 14 // bytes

func hostilities() []hostility {
	large := strings.Repeat("x", 60<<10)
	return []hostility{
		{name: "a byte of a length", do: func(p *memoryPeer) { p.send([]byte{0}) }},
		{name: "5 bytes of a frame of 64 KiB", do: func(p *memoryPeer) { p.send(submit(1, large)[:5]) }},
		{name: "idle, then a byte of a length", do: func(p *memoryPeer) {
			p.send(submit(1, ""))
			p.discard(len(ack(1, "")))
			p.send([]byte{0})
		}},
		{name: "refused and staying", do: func(p *memoryPeer) {
			p.send([]byte{0, 0, 0, 3})
			p.discard(refusalSize)
		}},
		{name: "refused and staying, with 32 KiB behind it", do: func(p *memoryPeer) {
			p.send(append([]byte{0, 0, 0, 3}, large[:32<<10]...))
			p.discard(refusalSize)
		}},
		{name: "half a PROXY line", proxies: true, do: func(p *memoryPeer) { p.send([]byte("PROXY TCP4 203.0.113.7 198.5")) }},
		{name: "a PROXY header of 4 KiB without its end", proxies: true, do: func(p *memoryPeer) {
			p.send(proxyV2(0x21, 0x11, make([]byte, 4096))[:20])
		}},
		{name: "idle after a reply of 60 KiB", do: func(p *memoryPeer) {
			p.send(submit(1, "large"))
			p.discard(len(ack(1, large)))
		}},
		{name: "idle after a request of 60 KiB", do: func(p *memoryPeer) {
			p.send(submit(1, large))
			p.discard(len(ack(1, "")))
		}},
		{name: "idle after 1 000 late replies at once", info: true, crowd: 50, do: func(p *memoryPeer) {
			p.send([]byte(strings.Repeat(string(submit(1, "late")), 1000)))
			p.discard(1000 * len(ack(1, "")))
		}},
		{name: "60 KiB of a frame of 64 KiB", info: true, do: func(p *memoryPeer) {
			p.send(submit(1, large+"and more")[:60<<10])
		}},
	}
}

// A hostile connection uses little more server memory than an idle one. Both sides are in
// this process, and the client's side costs the same in both cases.
func TestHostileConnectionCostsLittleMoreThanAnIdleOne(t *testing.T) {
	const most = 8 << 10
	inTurn.runPlain(t, func(t *testing.T, e engine.Engine) {
		idle := costPerConn(t, e, hostility{do: func(p *memoryPeer) {
			p.send(submit(1, ""))
			p.discard(len(ack(1, "")))
		}})
		t.Logf("%-8s %6d B  idle", e.Name(), idle)
		for _, h := range hostilities() {
			if h.info && !testrun.All() {
				continue
			}
			more := costPerConn(t, e, h) - idle
			t.Logf("%-8s %+6d B  %s", e.Name(), more, h.name)
			if more > most && !h.info {
				t.Errorf("%s costs %d bytes more than an idle connection, want %d at most", h.name, more, most)
			}
		}
	})
}

// costPerConn returns the heap and stack memory per connection.
func costPerConn(t *testing.T, e engine.Engine, h hostility) int64 {
	t.Helper()
	crowd := h.crowd
	if crowd == 0 {
		crowd = testrun.Sized(100, 250)
	}
	large := strings.Repeat("y", 60<<10)
	late := make(chan framed.Reply, 1000)
	s := &framed.Server{
		Engine: e,
		Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
			switch string(req) {
			case "large":
				return append(dst, large...), nil
			case "late":
				late <- c.Later()
				if len(late) == cap(late) {
					for range cap(late) {
						(<-late).Send(nil)
					}
				}
			}
			return dst, nil
		}),
		// No timeout expires during the measurement.
		Limits: engine.Limits{FrameTime: -1, LingerTime: time.Hour, InFlight: 2000},
	}
	if h.proxies {
		s.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	peers := make([]*memoryPeer, 0, crowd+1)
	defer func() {
		for _, p := range peers {
			p.Close()
		}
		s.Close()
		<-served
	}()
	open := func() {
		nc, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		p := &memoryPeer{nc.(*net.TCPConn), t}
		p.SetReadDeadline(time.Now().Add(patience))
		peers = append(peers, p)
		before := s.Stats().BytesIn
		h.do(p)
		p.SetReadDeadline(time.Time{})
		awaitRead(s, before+1)
	}
	open() // excludes one-time costs
	before := liveMemory()
	for range crowd {
		open()
	}
	eventually(t, "all connections are open", func() bool { return s.Stats().Open == crowd+1 })
	after := liveMemory()
	if now := s.Stats(); now.Open != crowd+1 {
		t.Fatalf("%s: %d connections open, want %d; ended: %v", h.name, now.Open, crowd+1, now.Ended)
	}
	return (after - before) / int64(crowd)
}
