package engine

import (
	"crypto/tls"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"time"
)

// More loops than processors would only compete for them.
func TestLoopsAreNoMoreThanProcessors(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2 * runtime.NumCPU()))
	s := &Server{Engine: Events(Auto), Protocol: &oneLine{}}
	s.init()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ln) }()
	nc, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	<-s.running
	s.Close()
	<-ended
	if n := len(s.started()); n != runtime.NumCPU() {
		t.Errorf("%d loops on %d processors", n, runtime.NumCPU())
	}
}

// Handshakes that end while they wait for their clients leave as many turns as there were.
func TestHandshakesThatEndAddNoTurns(t *testing.T) {
	s := &Server{Engine: Events(Auto), Protocol: &oneLine{}, Limits: Limits{FrameTime: 100 * time.Millisecond}}
	s.init()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(NewTLSListener(ln, secureConfig())) }()
	var clients sync.WaitGroup
	for range 2 * runtime.GOMAXPROCS(0) {
		nc, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		clients.Go(func() { tls.Client(&half{Conn: nc}, &tls.Config{InsecureSkipVerify: true}).Read(make([]byte, 1)) })
	}
	clients.Wait()
	free := 0
	for s.turns.Take(netip.Addr{}, Conn{}, false) {
		free++
	}
	if want := runtime.GOMAXPROCS(0); free != want {
		t.Errorf("%d turns, want %d", free, want)
	}
	s.Close()
	<-ended
}

// half is a client's connection that sends its first message only.
type half struct {
	net.Conn
	sent bool
}

func (h *half) Write(p []byte) (int, error) {
	if h.sent {
		return len(p), nil
	}
	h.sent = true
	return h.Conn.Write(p)
}
