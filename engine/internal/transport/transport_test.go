package transport

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hone-go/hone/internal/sys"
)

// pair returns both ends of a unix socket.
func pair(t *testing.T) (near, far net.Conn) {
	t.Helper()
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if far, err = net.Dial("unix", ln.Addr().String()); err == nil {
		near, err = ln.Accept()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close(); far.Close() })
	return near, far
}

// layer is a connection around another one, such as TLS.
type layer struct {
	net.Conn
	closed *[]string
}

func (l layer) NetConn() net.Conn { return l.Conn }

func (l layer) Close() error {
	*l.closed = append(*l.closed, "layer")
	return nil
}

// A nudge ends the owner's read, whether it comes before the read or after, until it is cleared.
func TestNudge(t *testing.T) {
	for name, covered := range map[string]bool{"socket": false, "adapter": true} {
		t.Run(name, func(t *testing.T) {
			near, far := pair(t)
			if covered {
				near = layer{near, new([]string)}
			}
			testNudge(t, near, far)
		})
	}
}

func testNudge(t *testing.T, near, far net.Conn) {
	var owned sync.WaitGroup
	defer owned.Wait()
	s := StreamOf(near, &owned)
	buf := make([]byte, 8)
	s.Nudge()
	if _, err := s.Read(buf); !TimedOut(err) || !s.IsNudged() {
		t.Errorf("a nudged read returned %v", err)
	}
	s.ClearNudge()
	s.Settle()
	far.Write([]byte("one"))
	if n, err := s.Read(buf); n != 3 || err != nil {
		t.Errorf("read %d bytes, %v", n, err)
	}
	s.ReadArrived()
	s.Settle()
	if _, err := s.Read(buf); !TimedOut(err) {
		t.Errorf("a read of what has arrived returned %v", err)
	}
	s.Recover()
	s.Settle()
	far.Write([]byte("two"))
	if n, err := s.Read(buf); n != 3 || err != nil || s.IsNudged() {
		t.Errorf("read %d bytes, %v", n, err)
	}
}

// withEnd returns the end of the input together with the last bytes.
type withEnd struct{ net.Conn }

func (withEnd) Read(p []byte) (int, error) { return copy(p, "last"), io.EOF }

func TestReadKeepsTheEndForTheNextRead(t *testing.T) {
	s := StreamOf(withEnd{}, new(sync.WaitGroup))
	if n, err := s.Read(make([]byte, 8)); n != 4 || err != nil {
		t.Errorf("read %d bytes, %v", n, err)
	}
}

// Both kinds of link answer alike, and one without a plain socket guesses.
func TestLinks(t *testing.T) {
	if !sys.Readiness {
		t.Skip("this system does not report what is unread and unsent")
	}
	near, far := pair(t)
	far.Write([]byte("four"))
	socket, closed := sys.NoSocket, []string{}
	plain, covered := StreamOf(near, new(sync.WaitGroup)), StreamOf(layer{near, &closed}, new(sync.WaitGroup))
	links := map[string]Link{"plain": {Stream: &plain}, "covered": {Stream: &covered}}
	if sys.Polls {
		var err error
		if socket, err = sys.Take(near.(*net.UnixConn)); err != nil {
			t.Fatal(err)
		}
		links["socket"] = Link{Socket: socket}
		defer socket.Close()
	}
	for name, l := range links {
		unread, isPlain := 4, true
		if name == "covered" {
			unread, isPlain = unreadGuess, false
		}
		if l.Unread() != unread || l.IsPlain() != isPlain || l.HasUnread() != isPlain {
			t.Errorf("%s: %d unread, plain %v, has unread %v", name, l.Unread(), l.IsPlain(), l.HasUnread())
		}
		if l.HungUp() || l.Unsent() != 0 || !l.IsReceived() {
			t.Errorf("%s: hung up %v, %d unsent, received %v", name, l.HungUp(), l.Unsent(), l.IsReceived())
		}
		if name == "covered" && l.CloseWrite() {
			t.Error("a layer without CloseWrite was shut down")
		}
	}
	far.Close()
	for name, l := range links {
		if sys.Polls && !l.HungUp() {
			t.Errorf("%s: the peer's end is not seen", name)
		}
	}
}

// A stream that must be reset closes the socket before the layers around it say goodbye.
func TestCloseWithAReset(t *testing.T) {
	near, far := pair(t)
	var closed []string
	s := StreamOf(layer{near, &closed}, new(sync.WaitGroup))
	Link{Stream: &s}.CutOff(true)
	if !s.Resets() || !s.IsNudged() {
		t.Errorf("after a hard end: resets %v, nudged %v", s.Resets(), s.IsNudged())
	}
	s.Close(s.Resets())
	if _, err := near.Write([]byte("x")); !errors.Is(err, net.ErrClosed) || len(closed) != 1 {
		t.Errorf("the socket is open (%v), or its layer (%v)", err, closed)
	}
	if n, err := far.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("the peer read %d bytes, %v", n, err)
	}
	var none *Stream
	if none.Close(none.Resets()); none.Resets() {
		t.Error("no stream must be reset")
	}
}

// Of a socket that was given away only the addresses stay.
func TestGiveAway(t *testing.T) {
	near, _ := pair(t)
	s := StreamOf(near, new(sync.WaitGroup))
	local := near.LocalAddr()
	if nc, done := s.GiveAway(); nc != near {
		t.Fatal("another net.Conn was given away")
	} else {
		done()
	}
	if _, err := s.Read(nil); err != net.ErrClosed || s.Conn.LocalAddr() != local || s.Conn.Close() != nil {
		t.Errorf("read: %v, address %v", err, s.Conn.LocalAddr())
	}
	if _, err := near.Write([]byte("still open")); err != nil {
		t.Error(err)
	}
}

func TestWriteNow(t *testing.T) {
	near, far := pair(t)
	s := StreamOf(near, new(sync.WaitGroup))
	if s.Raw == nil {
		t.Skip("this system gives no access to descriptors")
	}
	if n, err := s.WriteNow([]byte("hello")); n != 5 || err != nil {
		t.Fatalf("wrote %d bytes, %v", n, err)
	}
	buf := make([]byte, 8)
	if n, _ := far.Read(buf); string(buf[:n]) != "hello" {
		t.Errorf("the peer read %q", buf[:n])
	}
	p := make([]byte, 1)
	drain := make([]byte, 64<<10)
	if n := testing.AllocsPerRun(100, func() { s.WriteNow(p); far.Read(drain) }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
	for {
		if _, err := s.WriteNow(drain); err != nil {
			if err != sys.ErrAgain {
				t.Error(err)
			}
			return
		}
	}
}

func TestAddrPort(t *testing.T) {
	if a := AddrPort(&net.TCPAddr{IP: net.ParseIP("::ffff:192.0.2.1"), Port: 80}); a != netip.MustParseAddrPort("192.0.2.1:80") {
		t.Errorf("%v", a)
	}
	if a := AddrPort(&net.UnixAddr{Name: "s"}); a.IsValid() {
		t.Errorf("a unix socket has the address %v", a)
	}
}

// stubborn is an adapter that is slow to set deadlines.
type stubborn struct {
	net.Conn
	entered, goOn chan struct{}
	set           []time.Time
}

func (s *stubborn) SetReadDeadline(at time.Time) error {
	s.entered <- struct{}{}
	<-s.goOn
	s.set = append(s.set, at)
	return nil
}

// Whoever nudges an adapter does not wait for it, and what its owner wants last is what remains.
func TestDeadlinesOfAnAdapter(t *testing.T) {
	near, _ := pair(t)
	var owned sync.WaitGroup
	slow := &stubborn{Conn: near, entered: make(chan struct{}, 8), goOn: make(chan struct{})}
	s := StreamOf(slow, &owned)
	s.Nudge()
	<-slow.entered
	s.ClearNudge()
	settled := make(chan struct{})
	go func() {
		defer close(settled)
		s.Settle()
	}()
	close(slow.goOn)
	<-settled
	owned.Wait()
	if n := len(slow.set); n != 2 || !slow.set[0].Equal(Past()) || !slow.set[1].IsZero() {
		t.Errorf("set %v, want the past and then none", slow.set)
	}
	s.Nudge()
	_, done := s.GiveAway()
	done()
	owned.Wait()
	if last := slow.set[len(slow.set)-1]; !last.IsZero() {
		t.Errorf("given away with the deadline %v", last)
	}
}
