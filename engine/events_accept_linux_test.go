package engine

import (
	"net"
	"runtime"
	"testing"
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
