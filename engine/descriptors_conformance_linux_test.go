package engine_test

import (
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
)

// Serve returns an error when there are not enough descriptors for a connection. With one
// more, it serves one.
func TestServeNeedsRoomForAConnection(t *testing.T) {
	onEach(t, over(overTCP), func(t *testing.T, g ground) {
		if !alone(t) { // the limit is the process's
			return
		}
		for free := range 200 {
			if s, err := serveWith(t, g, free); err == nil {
				t.Logf("serves with %d descriptors", free)
				if _, err := serveWith(t, g, free+1); err != nil {
					t.Errorf("serves with %d descriptors, but with one more: %v", free, err)
				}
				return
			} else if !errors.Is(err, syscall.EMFILE) || s.Stats().Accepted > 0 {
				t.Fatalf("with %d descriptors, after %d connections: %v", free, s.Stats().Accepted, err)
			}
		}
		t.Error("does not serve with 200 descriptors")
	})
}

// serveWith serves a client that is connected already while the process may open this
// many descriptors, and returns Serve's error unless the client is answered.
func serveWith(t *testing.T, g ground, free int) (*engine.Server, error) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nc, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	defer limitDescriptors(t, free)()
	s := &engine.Server{Protocol: answering, Engine: g.engine}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	nc.SetDeadline(time.Now().Add(patience))
	io.WriteString(nc, "hello\n")
	_, unanswered := io.ReadFull(nc, make([]byte, len("answer\n")))
	s.Close() // changes nothing if Serve has failed, which also ends the connection
	if err := heard(t, served, "Serve returns"); err != engine.ErrServerClosed {
		return s, err
	}
	if unanswered != nil {
		t.Errorf("with %d descriptors the server runs, and the client is not served: %v", free, unanswered)
	}
	return s, nil
}

// limitDescriptors limits the process to this many more descriptors. The limit is one of
// numbers: a descriptor beyond it takes no room.
func limitDescriptors(t *testing.T, free int) (lift func()) {
	t.Helper()
	var usual syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &usual); err != nil {
		t.Fatal(err)
	}
	low := usual
	for low.Cur = 0; free > 0 || isOpen(low.Cur); low.Cur++ {
		if !isOpen(low.Cur) {
			free--
		}
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	return func() { syscall.Setrlimit(syscall.RLIMIT_NOFILE, &usual) }
}

func isOpen(fd uint64) bool {
	_, err := os.Readlink("/proc/self/fd/" + strconv.FormatUint(fd, 10))
	return err == nil
}

// Where there is no descriptor with which a lent connection could return to its loop, it ends
// for that reason.
func TestNoDescriptorAfterALoan(t *testing.T) {
	onEach(t, over(overTCP), func(t *testing.T, g ground) {
		if g.engine != engine.Events(engine.Auto) || !alone(t) { // others need none; the limit is the process's
			return
		}
		lift := func() {}
		s := serve(t, g, lines{serve: func(turn *engine.Turn, _ []byte) error {
			turn.TakeOver(func(_ net.Conn, unread []byte) ([]byte, bool) {
				lift = limitDescriptors(t, 0)
				return unread, true
			})
			return errHandedOver
		}})
		c := s.dial(t)
		c.send("lend\n")
		why := heard(t, s.ends, "the connection's end")
		if lift(); why != engine.NoDescriptors {
			t.Errorf("it ended for %v, want %v", why, engine.NoDescriptors)
		}
	})
}
