package engine_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"sync"
	"time"

	"github.com/hone-go/hone/engine"
)

// words is a protocol of lines for the examples. A function serves each line.
type words func(t *engine.Turn, line string)

func (serve words) Advance(t *engine.Turn, in []byte) (used, need int, err error) {
	for {
		line, _, whole := bytes.Cut(in[used:], []byte("\n"))
		if !whole {
			return used, 1, nil
		}
		if !t.Room() {
			return used, 0, nil
		}
		t.Mark(used)
		serve(t, string(line))
		used += len(line) + 1
	}
}

func (words) Refuse(dst, _ []byte, _ engine.Reason) []byte { return dst }

// converse serves p, sends lines and returns a scanner for the answers. stop ends the server.
func converse(p engine.Protocol, lines string) (nc net.Conn, answers *bufio.Scanner, stop func()) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	srv := &engine.Server{Protocol: p}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	nc, err = net.Dial("tcp", ln.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	nc.SetDeadline(time.Now().Add(10 * time.Second))
	io.WriteString(nc, lines)
	return nc, bufio.NewScanner(nc), func() {
		nc.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		srv.Shutdown(ctx)
		<-served
	}
}

// A Conn is a value that may be kept. Push sends to it from any goroutine and does not wait for the
// peer.
func ExampleConn_Push() {
	var mu sync.Mutex
	listeners := make(map[engine.Conn]bool)
	_, answers, stop := converse(words(func(t *engine.Turn, line string) {
		mu.Lock()
		listeners[t.Conn()] = true
		mu.Unlock()
		t.Out = append(t.Out, "you are a listener\n"...)
	}), "listen\n")
	defer stop()
	answers.Scan()
	fmt.Println(answers.Text())

	mu.Lock()
	for c := range listeners {
		if err := c.Push([]byte("news\n")); err != nil {
			delete(listeners, c) // it has ended, or does not read
		}
	}
	mu.Unlock()
	answers.Scan()
	fmt.Println(answers.Text())
	// Output:
	// you are a listener
	// news
}

// Whatever is pushed after Hold comes after the answers of the visit: here the welcome comes first,
// although the push was earlier.
func ExampleTurn_Hold() {
	_, answers, stop := converse(words(func(t *engine.Turn, line string) {
		t.Hold()
		c := t.Conn()
		var pushed sync.WaitGroup
		pushed.Go(func() { c.Push([]byte("news\n")) }) // from another connection's handler, for example
		pushed.Wait()
		t.Out = append(t.Out, "welcome\n"...)
	}), "listen\n")
	defer stop()
	for range 2 {
		answers.Scan()
		fmt.Println(answers.Text())
	}
	// Output:
	// welcome
	// news
}

// Later promises an answer that any goroutine may send. A protocol whose messages have ids may send
// them in any order; one without ids sets Limits.InFlight to 1.
func ExampleTurn_Later() {
	slow := make(chan engine.Reply, 1)
	_, answers, stop := converse(words(func(t *engine.Turn, line string) {
		r := t.Later()
		if line == "1 slow" {
			slow <- r // to another goroutine, which does the work
			return
		}
		go func() {
			r.Send([]byte("2 done\n"))
			(<-slow).Send([]byte("1 done\n"))
		}()
	}), "1 slow\n2 fast\n")
	defer stop()
	for range 2 {
		answers.Scan()
		fmt.Println(answers.Text())
	}
	// Output:
	// 2 done
	// 1 done
}

// counted counts its lines in Turn.State and is told when a connection has ended.
type counted struct {
	words
	ended chan string
}

func (p counted) Ended(_ engine.Conn, state uint64, why engine.Reason) {
	p.ended <- fmt.Sprintf("%s after %d lines", why.String(), state)
}

// A protocol with the method Ended can clean up after a connection, whatever has ended it.
func ExampleEnder() {
	p := counted{words: func(t *engine.Turn, line string) {
		t.State++
		t.Out = append(t.Out, "ok\n"...)
	}, ended: make(chan string, 1)}
	nc, answers, stop := converse(p, "one\ntwo\n")
	defer stop()
	answers.Scan()
	answers.Scan()
	nc.Close()
	fmt.Println(<-p.ended)
	// Output: peer_closed after 2 lines
}
