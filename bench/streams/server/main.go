// Command server is what bench/streams measures beside examples/streams: loans, and pushes
// that wait for the answer of a visit. Its commands are lines:
//
//	ping   is answered with pong
//	lend   lends the socket until the next line, which the borrower answers
//	hello  is answered with welcome; every connection is pushed to all the time with -flood
package main

import (
	"bytes"
	"flag"
	"fmt"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hone-go/hone/bench/streams/probe"
	"github.com/hone-go/hone/engine"
)

func main() {
	var srv engine.Server
	hold := flag.Bool("hold", true, "call Turn.Hold in every visit")
	flood := flag.Int("flood", 0, "push to all connections all the time, from `n` goroutines")
	flag.TextVar(&srv.Engine, "engine", srv.Engine, "move bytes with the engine `name`")
	flag.Parse()
	p := &protocol{hold: *hold}
	srv.Protocol = p
	if *flood > 0 {
		srv.OnOpen, srv.OnClose = p.crowd.add, func(c engine.Conn, _ engine.Reason) { p.crowd.remove(c) }
		for range *flood {
			go p.crowd.push()
		}
	}
	probe.Start()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		fmt.Printf("listening on %v\n", ln.Addr())
		err = srv.Serve(ln)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

type protocol struct {
	hold  bool
	crowd crowd
}

func (p *protocol) Advance(t *engine.Turn, in []byte) (used, need int, err error) {
	for {
		line, _, whole := bytes.Cut(in[used:], []byte("\n"))
		if !whole {
			return used, 1, nil
		}
		if !t.Room() {
			return used, 0, nil
		}
		t.Mark(used)
		used += len(line) + 1
		if p.hold {
			t.Hold()
		}
		switch string(line) {
		case "ping":
			t.Out = append(t.Out, "pong\n"...)
		case "lend":
			return used, 0, t.TakeOver(borrow)
		case "hello":
			p.welcome(t)
		default:
			return used, 0, engine.Malformed
		}
	}
}

func (p *protocol) Refuse(dst, _ []byte, why engine.Reason) []byte {
	return fmt.Appendf(dst, "refused %v\n", why.String())
}

// borrow answers one line and gives the socket back, with what it has read too much.
func borrow(nc net.Conn, unread []byte) (left []byte, back bool) {
	for !bytes.Contains(unread, []byte("\n")) {
		var part [64]byte
		n, err := nc.Read(part[:])
		if unread = append(unread, part[:n]...); err != nil {
			return nil, false
		}
	}
	line, left, _ := bytes.Cut(unread, []byte("\n"))
	_, err := fmt.Fprintf(nc, "lent %s\n", line)
	return left, err == nil
}

// welcome answers a handshake, and takes its time: in some visits the loop goes on
// meanwhile.
func (p *protocol) welcome(t *engine.Turn) {
	m, _ := t.Conn().Value().(*member)
	if m == nil {
		return
	}
	m.state.Store(inVisit)
	if m.number%4 == 0 {
		t.Leave()
	}
	for range m.number % 8 {
		runtime.Gosched()
	}
	t.Out = append(t.Out, "welcome\n"...)
	m.state.Store(welcomed)
}

// What a connection is when a push to it begins, which is what the push says.
const (
	before   = 'b' // Hold has not returned
	inVisit  = 'v' // it has, in the visit that welcomes
	welcomed = 'w' // the visit is about to end, or has ended
)

// member is a connection of the crowd.
type member struct {
	conn   engine.Conn
	number int
	state  atomic.Uint32
}

// crowd is all connections.
type crowd struct {
	mu      sync.Mutex
	count   int
	members []*member
}

func (c *crowd) add(conn engine.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := &member{conn: conn, number: c.count}
	m.state.Store(before)
	c.count++
	c.members = append(c.members, m)
	conn.SetValue(m)
}

func (c *crowd) remove(conn engine.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, m := range c.members {
		if m.conn == conn {
			c.members[i] = c.members[len(c.members)-1]
			c.members = c.members[:len(c.members)-1]
			return
		}
	}
}

// push pushes to all members, again and again, and not faster than they read.
func (c *crowd) push() {
	var members []*member
	for {
		c.mu.Lock()
		members = append(members[:0], c.members...)
		c.mu.Unlock()
		for _, m := range members {
			m.conn.Push([]byte{byte(m.state.Load()), '\n'})
		}
		time.Sleep(100 * time.Microsecond) // without a pause they fill every queue, and hone ends their readers as slow
	}
}
