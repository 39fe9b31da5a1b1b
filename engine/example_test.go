package engine_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"time"

	"github.com/hone-go/hone/engine"
)

// reverse is a line protocol that answers each line with its reverse. It does no I/O and
// keeps no state: bytes arrive in whatever pieces the network delivers.
type reverse struct{}

// Advance answers the whole lines at the front of in.
func (reverse) Advance(t *engine.Turn, in []byte) (used, need int, err error) {
	for {
		end := bytes.IndexByte(in[used:], '\n')
		switch {
		case end < 0 && len(in)-used > 1000:
			return used, 0, engine.TooLarge
		case end < 0:
			return used, 1, nil // the line feed has not arrived yet
		case !t.Room():
			return used, 0, nil // the peer has to read first
		}
		line := in[used : used+end]
		t.Mark(used) // rolls back the output below if the code panics
		for i := len(line) - 1; i >= 0; i-- {
			t.Out = append(t.Out, line[i])
		}
		t.Out = append(t.Out, '\n')
		used += end + 1
	}
}

// Refuse writes the last message before the connection ends.
func (reverse) Refuse(dst, _ []byte, why engine.Reason) []byte {
	return fmt.Appendf(dst, "closed: %v\n", why.String())
}

// A custom protocol runs on every engine, with all the limits.
func Example() {
	srv := &engine.Server{
		Protocol: reverse{},
		Limits:   engine.Limits{InFlight: 1}, // lines have no ids: replies must stay in order
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()

	nc, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(10 * time.Second))
	answers := bufio.NewScanner(nc)
	io.WriteString(nc, "hello\nwor")
	answers.Scan()
	fmt.Println(answers.Text())
	io.WriteString(nc, "ld\n")
	answers.Scan()
	fmt.Println(answers.Text())

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- srv.Shutdown(ctx) }()
	answers.Scan()
	fmt.Println(answers.Text())
	nc.Close()
	fmt.Println(<-ended, <-served, srv.Stats().Requests)
	// Output:
	// olleh
	// dlrow
	// closed: shutting_down
	// <nil> engine: server closed 2
}
