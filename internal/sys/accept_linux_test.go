package sys

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// kinds are the listeners of package net.
func kinds(t *testing.T) map[string]func() net.Listener {
	listen := func(network, addr string, lc net.ListenConfig) func() net.Listener {
		return func() net.Listener {
			t.Helper()
			ln, err := lc.Listen(context.Background(), network, addr)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { ln.Close() })
			return ln
		}
	}
	var plain net.ListenConfig
	plain.SetMultipathTCP(false)
	files := 0
	return map[string]func() net.Listener{
		"tcp4":          listen("tcp4", "127.0.0.1:0", net.ListenConfig{}),
		"tcp6":          listen("tcp6", "[::1]:0", net.ListenConfig{}),
		"both":          listen("tcp", ":0", net.ListenConfig{}),
		"not multipath": listen("tcp", "127.0.0.1:0", plain),
		"no keep-alive": listen("tcp", "127.0.0.1:0", net.ListenConfig{KeepAlive: -1}),
		"keep-alive":    listen("tcp", "127.0.0.1:0", net.ListenConfig{KeepAlive: 33 * time.Second}),
		"keep-alive in detail": listen("tcp", "127.0.0.1:0", net.ListenConfig{
			KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 44 * time.Second, Interval: 7 * time.Second, Count: 3}}),
		"keep-alive of the kernel": listen("tcp", "127.0.0.1:0", net.ListenConfig{
			KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: -1, Interval: -1, Count: -1}}),
		"options of the listener": listen("tcp", "127.0.0.1:0", net.ListenConfig{KeepAlive: -1, Control: func(_, _ string, c syscall.RawConn) error {
			return c.Control(func(fd uintptr) {
				unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
				unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 50_000)
			})
		}}),
		"unix": func() net.Listener {
			files++
			return listen("unix", filepath.Join(t.TempDir(), fmt.Sprint(files)), net.ListenConfig{})()
		},
	}
}

// described is what the kernel says of a connection: all options that can be read as numbers, the
// flags of the descriptor, and both addresses. Those that change by themselves are left out.
func described(fd int) map[string]int {
	facts := map[string]int{}
	for _, level := range []int{unix.SOL_SOCKET, unix.IPPROTO_TCP, unix.IPPROTO_IP, unix.IPPROTO_IPV6} {
		for name := range 80 {
			switch [2]int{level, name} {
			case [2]int{unix.SOL_SOCKET, unix.SO_COOKIE}, [2]int{unix.SOL_SOCKET, unix.SO_INCOMING_CPU}, [2]int{unix.SOL_SOCKET, unix.SO_INCOMING_NAPI_ID},
				[2]int{unix.SOL_SOCKET, unix.SO_MEMINFO}, [2]int{unix.SOL_SOCKET, unix.SO_PEERPIDFD}, [2]int{unix.SOL_SOCKET, unix.SO_PEERNAME},
				[2]int{unix.IPPROTO_TCP, unix.TCP_INFO}, [2]int{unix.IPPROTO_TCP, unix.TCP_TIMESTAMP}, [2]int{unix.IPPROTO_TCP, unix.TCP_CC_INFO},
				[2]int{unix.IPPROTO_IP, unix.IP_PROTOCOL}: // a port, on TCP
				continue
			}
			if value, err := unix.GetsockoptInt(fd, level, name); err == nil {
				facts[fmt.Sprintf("option %d of level %d", name, level)] = value
			}
		}
	}
	for _, of := range []int{unix.F_GETFL, unix.F_GETFD} {
		facts[fmt.Sprintf("fcntl %d", of)], _ = unix.FcntlInt(uintptr(fd), of, 0)
	}
	return facts
}

func dialed(t *testing.T, ln net.Listener, multipath bool) net.Conn {
	t.Helper()
	var d net.Dialer
	d.SetMultipathTCP(multipath)
	nc, err := d.Dial(ln.Addr().Network(), ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	return nc
}

// followed returns the next n connections of a, which has learned of one.
func followed(t *testing.T, a *Acceptor, n int) (sockets []Socket, from []netip.AddrPort) {
	t.Helper()
	for a.quick = true; len(sockets) < n; {
		a.Follow(func(s Socket, addr netip.AddrPort) {
			t.Cleanup(func() { s.Close() })
			sockets, from = append(sockets, s), append(from, addr)
		})
	}
	return sockets, from
}

// An accepted connection cannot be told from one of the listener's own Accept, whether it was made
// before the listener had the options or after, also while nobody knows whether it hands them on.
func TestAcceptorGivesWhatNetGives(t *testing.T) {
	for kind, listen := range kinds(t) {
		for _, multipath := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/multipath %v", kind, multipath), func(t *testing.T) {
				want := func() (facts map[string]int) {
					ln := listen()
					dialed(t, ln, multipath)
					nc, err := ln.Accept()
					if err != nil {
						t.Fatal(err)
					}
					defer nc.Close()
					raw, _ := nc.(syscall.Conn).SyscallConn()
					raw.Control(func(fd uintptr) { facts = described(int(fd)) })
					return facts
				}()
				ln := listen()
				a := new(Acceptor)
				var clients []net.Conn
				dial := func() { clients = append(clients, dialed(t, ln, multipath)) }
				for range 3 {
					dial()
				}
				first, err := ln.Accept()
				if err != nil {
					t.Fatal(err)
				}
				defer first.Close()
				a.Learn(ln, first)
				dial()
				sockets, from := followed(t, a, 3) // two of them older than the listener's options
				for range 2 {
					dial()
					s, addr := followed(t, a, 1)
					sockets, from = append(sockets, s...), append(from, addr...)
				}
				if !a.sure || a.lacks != 0 {
					t.Errorf("sockets lack %b, sure: %v", a.lacks, a.sure)
				}
				for i, s := range sockets {
					got := described(int(s))
					for fact, value := range want {
						if got[fact] != value {
							t.Errorf("connection %d: %s is %v, want %v", i, fact, got[fact], value)
						}
					}
					if len(got) != len(want) {
						t.Errorf("connection %d: %d facts, want %d", i, len(got), len(want))
					}
					if is := clients[i+1].LocalAddr(); kind != "unix" && !sameAddr(from[i], is) || kind == "unix" && from[i].IsValid() {
						t.Errorf("connection %d is from %v, want %v", i, from[i], is)
					}
				}
			})
		}
	}
}

func sameAddr(a netip.AddrPort, b net.Addr) bool {
	is := b.(*net.TCPAddr).AddrPort()
	return a == netip.AddrPortFrom(is.Addr().Unmap(), is.Port())
}

// The zone of an address is the name of its interface, as in package net.
func TestAddrPort(t *testing.T) {
	links, err := net.Interfaces()
	if err != nil || len(links) == 0 {
		t.Fatal(err)
	}
	local := netip.MustParseAddr("fe80::1")
	for _, x := range []struct {
		name syscall.Sockaddr
		want netip.AddrPort
	}{
		{&syscall.SockaddrInet4{Port: 80, Addr: [4]byte{192, 0, 2, 1}}, netip.MustParseAddrPort("192.0.2.1:80")},
		{&syscall.SockaddrInet6{Port: 80, Addr: netip.MustParseAddr("::ffff:192.0.2.1").As16()}, netip.MustParseAddrPort("192.0.2.1:80")},
		{&syscall.SockaddrInet6{Port: 80, Addr: netip.MustParseAddr("2001:db8::1").As16()}, netip.MustParseAddrPort("[2001:db8::1]:80")},
		{&syscall.SockaddrInet6{Port: 80, Addr: local.As16(), ZoneId: uint32(links[0].Index)}, netip.AddrPortFrom(local.WithZone(links[0].Name), 80)},
		{&syscall.SockaddrInet6{Port: 80, Addr: local.As16(), ZoneId: 1 << 30}, netip.AddrPortFrom(local.WithZone("1073741824"), 80)},
		{&syscall.SockaddrUnix{Name: "/somewhere"}, netip.AddrPort{}},
		{nil, netip.AddrPort{}},
	} {
		if got := addrPort(x.name); got != x.want {
			t.Errorf("%+v is %v, want %v", x.name, got, x.want)
		}
	}
}

// learned returns a listener, and an Acceptor that has learned of a connection.
func learned(t *testing.T) (net.Listener, *Acceptor) {
	t.Helper()
	ln, a := kinds(t)["tcp4"](), new(Acceptor)
	dialed(t, ln, false)
	first, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if a.Learn(ln, first); a.listener == nil {
		t.Fatal("the options are unknown")
	}
	return ln, a
}

// Follow returns although connections keep coming, so that Accept sees a deadline; when the listener was
// closed, whose port is free at once; when nobody comes; and at once when nobody came quickly.
func TestFollowEnds(t *testing.T) {
	for _, closes := range []bool{false, true} {
		ln, a := learned(t)
		a.Follow(func(Socket, netip.AddrPort) { t.Error("a connection after one that did not come quickly") })
		a.quick = true
		a.Follow(func(Socket, netip.AddrPort) { t.Error("a connection although nobody has come") })
		next := func() { dialed(t, ln, false).Close() }
		next()
		for came := 0; came == 0; { // on a busy machine its time may be over before it begins
			a.Follow(func(s Socket, _ netip.AddrPort) {
				s.Close()
				next() // there is always one more
				if came++; !closes {
					return
				} else if came > 1 {
					t.Fatal("a connection of a closed listener")
				}
				ln.Close()
				if nc, err := net.Dial("tcp", ln.Addr().String()); err == nil {
					nc.Close()
					t.Error("the port is still open")
				}
			})
		}
	}
}

// A connection is quick that Accept returns soon after it has returned the one before, or Follow has
// returned.
func TestQuickConnections(t *testing.T) {
	ln, a := learned(t)
	if a.quick {
		t.Error("the first connection is quick")
	}
	for _, x := range []struct {
		ago   time.Duration
		quick bool
	}{{-time.Hour, true}, {followTime, false}} { // the clock does not stop for this test
		a.last = time.Now().Add(-x.ago)
		if a.Learn(ln, nil); a.quick != x.quick {
			t.Errorf("quick is %v after %v", a.quick, x.ago)
		}
	}
	a.quick, a.last = true, time.Time{}
	if a.Follow(nil); a.last.IsZero() {
		t.Error("a connection right after Follow is not quick")
	}
}

// Where the kernel does not copy options of the listener, each socket gets them, without being asked first
// once that is sure.
func TestOptionsThatSocketsDoNotInherit(t *testing.T) {
	ln, a := learned(t)
	control(ln.(syscall.Conn), func(fd int) error {
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 0)
		return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 7200)
	})
	for i := range 4 {
		dialed(t, ln, false)
		sockets, _ := followed(t, a, 1)
		if lacks := a.complete(int(sockets[0])); a.sure != (i > 0) || a.lacks != 1<<1|1<<2 || lacks != 0 && !a.sure {
			t.Errorf("connection %d: lacks %b, sure: %v; it lacks %b", i, a.lacks, a.sure, lacks)
		}
		a.Follow(nil) // with nobody
		for _, o := range a.options {
			if value, err := unix.GetsockoptInt(int(sockets[0]), o.level, o.name); value != o.value {
				t.Errorf("connection %d: option %+v is %d, %v", i, o, value, err)
			}
		}
	}
}

// Without descriptors Follow leaves the connection to Accept, whose error says so.
func TestFollowWithoutDescriptors(t *testing.T) {
	var usual syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &usual); err != nil {
		t.Fatal(err)
	}
	for free := range 5 { // Follow itself needs some
		ln, a := learned(t)
		client := dialed(t, ln, false)
		few := usual
		for few.Cur = 0; free > 0 || isOpen(few.Cur); few.Cur++ {
			if !isOpen(few.Cur) {
				free--
			}
		}
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
			t.Fatal(err)
		}
		a.quick = true
		served := 0
		a.Follow(func(s Socket, _ netip.AddrPort) {
			served++
			s.Close()
		})
		if served == 0 {
			if nc, err := ln.Accept(); err == nil {
				served++
				nc.Close()
			} else if !Exhausted(err) {
				t.Errorf("Accept returns %v, want EMFILE", err)
			}
		}
		syscall.Setrlimit(syscall.RLIMIT_NOFILE, &usual)
		if served == 0 {
			sockets, _ := followed(t, a, 1)
			sockets[0].Close()
		}
		client.SetDeadline(time.Now().Add(10 * time.Second))
		if _, err := client.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("the client got %v, want the end", err)
		}
	}
}

func isOpen(fd uint64) bool {
	_, err := os.Readlink("/proc/self/fd/" + strconv.FormatUint(fd, 10))
	return err == nil
}

// Only sockets of package net are accepted, and none while the options are unknown.
func TestAcceptorOfOtherListeners(t *testing.T) {
	ln := kinds(t)["tcp4"]()
	dialed(t, ln, false)
	dialed(t, ln, false)
	nc, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	a := new(Acceptor)
	if a.Learn(struct{ net.Listener }{ln}, nc); a.listener != nil {
		t.Error("another type of listener")
	}
	nc.Close()
	if a.Learn(ln, nc); a.listener != nil {
		t.Error("the options of a closed connection are known")
	}
	a.quick = true
	a.Follow(func(Socket, netip.AddrPort) { t.Error("a connection with unknown options") })
}
