package main

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hone-go/hone/engine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience limits everything that a test waits for.
const patience = 20 * time.Second

// message is text with its length in front.
func message(text string) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(text)))) + text
}

// dial connects to a server that runs until the test ends.
func dial(t *testing.T, e engine.Engine) *net.TCPConn {
	t.Helper()
	srv := newServer()
	srv.Engine = e
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	nc, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	nc.SetDeadline(time.Now().Add(patience))
	t.Cleanup(func() {
		nc.Close()
		srv.Close()
		<-served
	})
	return nc.(*net.TCPConn)
}

func TestMessages(t *testing.T) {
	asked := message("hello") + message("") + message(strings.Repeat("x", most))
	for _, e := range engine.All() {
		t.Run(e.Name(), func(t *testing.T) {
			nc := dial(t, e)
			written := make(chan error, 1)
			go func() {
				for _, piece := range []string{asked[:2], asked[2:11], asked[11:]} { // split at arbitrary places
					if _, err := io.WriteString(nc, piece); err != nil {
						written <- err
						return
					}
				}
				written <- nc.CloseWrite()
			}()
			got, err := io.ReadAll(nc)
			if want := strings.ToUpper(asked); string(got) != want || err != nil {
				t.Errorf("%d bytes, %v; want %d", len(got), err, len(want))
			}
			if err := <-written; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestTooLong(t *testing.T) {
	for _, e := range engine.All() {
		t.Run(e.Name(), func(t *testing.T) {
			nc := dial(t, e)
			io.WriteString(nc, message("a")+"\x00\x01\x00\x01")
			if got, err := io.ReadAll(nc); string(got) != message("A") || err != nil {
				t.Errorf("%q, %v; want the earlier answers and EOF", got, err)
			}
		})
	}
}
