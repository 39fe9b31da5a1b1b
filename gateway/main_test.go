package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hone-go/hone/gateway/journal"
	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/wire"
)

func TestMain(m *testing.M) {
	if role := os.Getenv("HONE_GATEWAY_ROLE"); role != "" {
		if err := play(role); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	testrun.SideBySide(8)
	goleak.VerifyTestMain(m)
}

// patience is how long a test waits for what must come.
const patience = 60 * time.Second

func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// must ends the test with an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// reports is must where the test may go on, or where a goroutine of its own
// cannot end it.
func reports(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// locked is what is says, under the queue's lock.
func (s *Server) locked(is func() bool) func() bool {
	return func() bool {
		s.queue.mu.Lock()
		defer s.queue.mu.Unlock()
		return is()
	}
}

// works ends the test with the error of a call that returns something, too.
func works(t testing.TB) func(any, error) {
	return func(_ any, err error) {
		t.Helper()
		must(t, err)
	}
}

// gate is a Log in memory whose Append waits while the gate is shut.
type gate struct {
	Memory
	mu     sync.Mutex
	opened sync.Cond
	shut   bool
	passes int           // how many Appends may pass although it is shut
	fail   error         // what Append returns instead
	tried  chan struct{} // an Append has begun
}

func newGate() *gate {
	g := &gate{tried: make(chan struct{}, 1)}
	g.opened.L = &g.mu
	return g
}

func (g *gate) Append(ctx context.Context, envelope []byte) (uint64, error) {
	select {
	case g.tried <- struct{}{}:
	default:
	}
	defer context.AfterFunc(ctx, func() { // the server is closed
		g.mu.Lock()
		defer g.mu.Unlock()
		g.opened.Broadcast()
	})()
	g.mu.Lock()
	for g.shut && g.passes == 0 && ctx.Err() == nil {
		g.opened.Wait()
	}
	g.passes = max(g.passes-1, 0)
	err := g.fail
	g.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return g.Memory.Append(ctx, envelope)
}

// set opens or shuts the gate, and says what Append fails with from now on.
func (g *gate) set(shut bool, fail error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut, g.fail = shut, fail
	select {
	case <-g.tried: // by an Append before
	default:
	}
	g.opened.Broadcast()
}

// pass lets one Append through the shut gate.
func (g *gate) pass() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.passes++
	g.opened.Broadcast()
}

// records are all records of a log, by client.
func records(t testing.TB, log journal.Log) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	_, err := Check(context.Background(), log, func(r journal.Record) error {
		all[r.Client] = append(all[r.Client], string(r.Data))
		return nil
	})
	must(t, err)
	return all
}

// served is a Server that runs.
type served struct {
	*Server
	addr string
	err  chan error // what Serve has returned
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	return ln
}

// serve runs s on a free port until the test ends.
func serve(t testing.TB, s *Server) *served {
	t.Helper()
	return serveOn(t, s, listen(t))
}

func serveOn(t testing.TB, s *Server, ln net.Listener) *served {
	up := &served{Server: s, addr: ln.Addr().String(), err: make(chan error, 1)}
	s.tokensTime = cmp.Or(s.tokensTime, time.Hour) // else it may be faster than a test that changes the file
	go func() { up.err <- s.Serve(ln) }()
	t.Cleanup(func() {
		s.Close()
		<-up.err
		up.err <- nil
	})
	return up
}

// ended waits until Serve has returned.
func (u *served) ended(t testing.TB) error {
	t.Helper()
	select {
	case err := <-u.err:
		u.err <- err // for the cleanup
		return err
	case <-soon(t).Done():
		t.Fatal("Serve did not return")
	}
	return nil
}

// client makes a Client of the server that ends with the test.
func (u *served) client(t testing.TB, id string) *Client {
	c := &Client{Addrs: []string{u.addr}, ID: id}
	t.Cleanup(func() { c.end(ErrClosed); <-c.done })
	c.start()
	return c
}

// peer is a client by hand: one frame at a time.
type peer struct {
	t  testing.TB
	nc net.Conn
}

func (u *served) peer(t testing.TB) *peer {
	t.Helper()
	nc, err := net.Dial("tcp", u.addr)
	must(t, err)
	nc.SetDeadline(time.Now().Add(patience))
	t.Cleanup(func() { nc.Close() })
	return &peer{t, nc}
}

func (p *peer) send(packets ...wire.Packet) {
	p.t.Helper()
	var out []byte
	for _, packet := range packets {
		out = wire.Append(out, packet)
	}
	works(p.t)(p.nc.Write(out))
}

func (p *peer) receive() (wire.Packet, error) {
	return readOne(p.nc)
}

func (p *peer) must(what wire.Command, id uint64, result wire.Result) wire.Packet {
	p.t.Helper()
	packet, err := p.receive()
	if err != nil {
		p.t.Fatalf("instead of a %v of %d: %v", what, id, err)
	}
	if packet.Command != what || packet.ID != id || packet.Result != result {
		p.t.Fatalf("got %v %d %v %q; want %v %d %v", packet.Command, packet.ID, packet.Result, packet.Content, what, id, result)
	}
	return packet
}

// hello says hello and returns the welcome.
func (p *peer) hello(h hello) welcome {
	p.t.Helper()
	p.send(wire.Packet{Command: wire.Conn, ID: 1, Content: h.append(nil)})
	return p.welcome()
}

// welcome returns the answer to a hello.
func (p *peer) welcome() welcome {
	p.t.Helper()
	w, err := parseWelcome(p.must(wire.ConnAck, 1, wire.OK).Content)
	must(p.t, err)
	return w
}

// stored submits a record and waits until it is stored.
func (p *peer) stored(seq uint64, data string) {
	p.t.Helper()
	p.submit(seq, data)
	p.must(wire.SubmitAck, seq, wire.OK)
}

func (p *peer) submit(seq uint64, data string) {
	p.t.Helper()
	p.send(wire.Packet{Command: wire.Submit, ID: seq, Content: []byte(data)})
}

// closed reads until the server closes the connection, and fails on any acknowledgement.
func (p *peer) closed() {
	p.t.Helper()
	for {
		packet, err := p.receive()
		if err != nil {
			if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() {
				p.t.Fatal("the server did not close the connection")
			}
			return
		}
		if packet.Result == wire.OK {
			p.t.Fatalf("the server sent %v %d %v", packet.Command, packet.ID, packet.Result)
		}
	}
}

// TestWithoutNATS: a program that imports package gateway builds nothing of NATS.
func TestWithoutNATS(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "/gateway/journal\n") {
		t.Fatalf("%v\n%s", err, out)
	}
	if strings.Contains(string(out), "nats") || strings.Contains(string(out), "/gateway/cluster\n") {
		t.Errorf("package gateway builds a cluster's log:\n%s", out)
	}
}
