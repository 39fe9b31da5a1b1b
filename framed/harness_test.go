package framed_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/internal/tlsfront"
	"github.com/hone-go/hone/wire"
)

// run runs a behaviour test on every engine, and on Events over TLS: a new engine in
// engine.All inherits every test. It counts goroutines and descriptors after the test.
func run(t *testing.T, test func(t *testing.T, e engine.Engine)) {
	t.Helper()
	runOn(t, append(engines(), overTLS(t)...), func(t *testing.T, e engine.Engine) {
		t.Parallel()
		test(t, e)
	})
}

// runPlain is run without TLS.
func runPlain(t *testing.T, test func(t *testing.T, e engine.Engine)) {
	t.Helper()
	runOn(t, engines(), func(t *testing.T, e engine.Engine) {
		t.Parallel()
		test(t, e)
	})
}

// inTurn is runPlain on one engine after the other, for a test that measures this process.
func inTurn(t *testing.T, test func(t *testing.T, e engine.Engine)) {
	t.Helper()
	runOn(t, engines(), test)
}

// variant is what a subtest runs on.
type variant struct {
	name   string
	engine engine.Engine
}

func runOn(t *testing.T, all []variant, test func(t *testing.T, e engine.Engine)) {
	t.Helper()
	t.Cleanup(countLeaks(t))
	for _, v := range all {
		t.Run(v.name, func(t *testing.T) { test(t, v.engine) })
	}
}

func engines() (all []variant) {
	for _, e := range engine.All() {
		all = append(all, variant{e.Name(), e})
	}
	return all
}

// onTLS is Events behind a front that speaks TLS with it and clear text with the clients.
const onTLS = "events-tls"

// overTLS returns that variant, unless the test can tell the front from its clients, by their
// addresses or because a refused connection is not told why.
func overTLS(t *testing.T) []variant {
	switch t.Name() {
	case "TestClientRefused",
		"TestContextAndValueBelongToTheConnection",
		"TestEveryListenerIsServedAlike",
		"TestIdleClientsGiveWay",
		"TestOneServerServesEveryListenerAtOnce",
		"TestPeerIsAskedWhileItLeaves",
		"TestPeerIsKnownWhereverThereIsAConn",
		"TestToldAddressIsTheAddressEverywhere":
		return nil
	}
	if e := engine.Events(engine.Auto); slices.Contains(engine.All(), e) {
		return []variant{{onTLS, e}}
	}
	return nil
}

// front returns the listener for a test: ln, behind the front where the variant has one.
func front(t *testing.T, ln net.Listener) net.Listener {
	if slices.Contains(strings.Split(t.Name(), "/"), onTLS) {
		return tlsfront.Listen(t, ln, tlsConfig(t))
	}
	return ln
}

// countLeaks counts goroutines and descriptors now and compares at the end. Register it
// first, so that it runs after every other clean-up.
func countLeaks(t *testing.T) func() {
	before, files := goleak.IgnoreCurrent(), openFiles()
	return func() {
		if t.Failed() {
			return // leaks of a failed test are expected
		}
		if err := goleak.Find(before); err != nil {
			t.Errorf("goroutines have outlived the test: %v", err)
		}
		if runtime.GOOS == "linux" {
			defer func() {
				if t.Failed() {
					t.Logf("%d were open before; now: %q", files, descriptors())
				}
			}()
			eventually(t, "descriptors are closed", func() bool { return openFiles() <= files })
		}
	}
}

// descriptors describes each open descriptor.
func descriptors() (all []string) {
	const dir = "/proc/self/fd/"
	names, _ := os.ReadDir(dir)
	for _, name := range names {
		if what, err := os.Readlink(dir + name.Name()); err == nil {
			all = append(all, name.Name()+" "+what)
		}
	}
	return all
}

func openFiles() int {
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(names)
}

// patience is the timeout of everything that a test waits for.
const patience = 30 * time.Second

// eventually polls for a condition without an event, such as a counter or the kernel's
// state.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	eventuallyEvery(t, time.Millisecond, what, ok)
}

// eventuallyEvery is eventually for a condition that costs more to check.
func eventuallyEvery(t *testing.T, pause time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("not after %v: %s", patience, what)
		}
	}
}

// echo answers every request with its own content.
func echo(_ framed.Call, dst, req []byte) ([]byte, error) { return append(dst, req...), nil }

// serve serves s on a loopback port until the test ends, and returns the
// address. s.Engine and s.Handler must be set.
func serve(t *testing.T, s *framed.Server) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, s, ln)
}

func serveOn(t *testing.T, s *framed.Server, ln net.Listener) string {
	t.Helper()
	served := make(chan error, 1)
	if s.Logger == nil { // several listeners may share a server, which then reads it already
		s.Logger = slog.New(slog.DiscardHandler) // panics are often intended
	}
	ln = front(t, ln)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-served; err != framed.ErrServerClosed {
			t.Errorf("Serve returned %v, want ErrServerClosed", err)
		}
	})
	return ln.Addr().String()
}

// peer is a client's side of a connection, used by hand.
type peer struct {
	net.Conn
	t *testing.T
	r *bufio.Reader
}

func dial(t *testing.T, addr string) *peer {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(patience))
	return &peer{nc, t, bufio.NewReader(nc)}
}

// submit encodes a Submit packet as a frame.
func submit(id uint64, content string) []byte {
	return wire.Append(nil, wire.Packet{Command: wire.Submit, ID: id, Content: []byte(content)})
}

// ack encodes its SubmitAck.
func ack(id uint64, content string) []byte {
	return wire.Append(nil, wire.Packet{Command: wire.SubmitAck, ID: id, Content: []byte(content)})
}

// send writes raw bytes.
func (p *peer) send(b []byte) {
	p.t.Helper()
	if _, err := p.Write(b); err != nil {
		p.t.Fatalf("write: %v", err)
	}
}

// packet reads one packet.
func (p *peer) packet() wire.Packet {
	p.t.Helper()
	packet, err := p.tryPacket()
	if err != nil {
		p.t.Fatalf("reading a packet: %v", err)
	}
	return packet
}

func (p *peer) tryPacket() (wire.Packet, error) {
	var head [wire.HeaderSize]byte
	if _, err := io.ReadFull(p.r, head[:]); err != nil {
		return wire.Packet{}, err
	}
	payload := make([]byte, binary.BigEndian.Uint32(head[:])-wire.HeaderSize)
	if _, err := io.ReadFull(p.r, payload); err != nil {
		return wire.Packet{}, err
	}
	return wire.Parse(payload)
}

// want reads exactly these bytes.
func (p *peer) want(want []byte) {
	p.t.Helper()
	got := make([]byte, len(want))
	n, err := io.ReadFull(p.r, got)
	if err != nil || !bytes.Equal(got, want) {
		p.t.Fatalf("read %q (%v), want %q", got[:n], err, want)
	}
}

// wantEnd reads the end of the stream: a FIN, not a reset.
func (p *peer) wantEnd() {
	p.t.Helper()
	if rest, err := io.ReadAll(p.r); err != nil || len(rest) > 0 {
		p.t.Fatalf("at the end: %q and %v, want nothing and a clean close", rest, err)
	}
}

// wantRefusal reads a refusal of the whole connection, and its end.
func (p *peer) wantRefusal(code wire.Result) {
	p.t.Helper()
	got := p.packet()
	if got.Command != wire.ConnAck || got.ID != 0 || got.Result != code {
		p.t.Fatalf("got %+v, want ConnAck 0 with result %v", got, code)
	}
	p.wantEnd()
}

// closeWrite closes the sending direction.
func (p *peer) closeWrite() {
	p.t.Helper()
	if err := p.Conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		p.t.Fatal(err)
	}
}

// reset closes with RST.
func (p *peer) reset() {
	p.Conn.(*net.TCPConn).SetLinger(0)
	p.Close()
}

// ended waits until the server has counted n connections ended for why.
func ended(t *testing.T, s *framed.Server, why engine.Reason, n uint64) {
	t.Helper()
	eventually(t, why.String()+" is counted", func() bool { return s.Stats().Ended[why] >= n })
	if got := s.Stats().Ended[why]; got != n {
		t.Errorf("counted %d connections ended for %v, want %d (all: %v)", got, why, n, s.Stats().Ended)
	}
}

// dialOn is dial for any network.
func dialOn(t *testing.T, network, addr string) *peer {
	t.Helper()
	nc, err := net.Dial(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	return peerOf(t, nc)
}

// peerOf returns a peer on an existing connection.
func peerOf(t *testing.T, nc net.Conn) *peer {
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(patience))
	return &peer{nc, t, bufio.NewReader(nc)}
}

// heard returns the next value of ch.
func heard[T any](t *testing.T, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("not within %v: %s", patience, what)
		panic("unreachable")
	}
}

// none fails the test if ch has a value within the time in which it would almost
// certainly have arrived.
func none[T any](t *testing.T, ch <-chan T, what string) {
	t.Helper()
	select {
	case v := <-ch:
		t.Fatalf("%s: %v", what, v)
	case <-time.After(20 * time.Millisecond):
	}
}

// converse runs write while it reads replies and compares them with want. It may be
// called from any goroutine.
func (p *peer) converse(want []byte, write func(w io.Writer) error) error {
	written := make(chan error, 1)
	go func() { written <- write(p.Conn) }()
	got := make([]byte, len(want))
	n, err := io.ReadFull(p.r, got)
	for i := range n {
		if got[i] != want[i] {
			err = fmt.Errorf("byte %d differs: %q, want %q", i, got[i:min(n, i+32)], want[i:min(n, i+32)])
			break
		}
	}
	if err != nil {
		err = fmt.Errorf("%d of %d bytes read: %w", n, len(want), err)
		p.SetDeadline(time.Unix(1, 0)) // nobody reads further replies
	}
	return errors.Join(err, <-written)
}

// whole sends b in one write.
func whole(b []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	}
}

// frame encodes a packet as a frame.
func frame(c wire.Command, id uint64, result wire.Result, content string) []byte {
	return wire.Append(nil, wire.Packet{Command: c, ID: id, Result: result, Content: []byte(content)})
}

// seed returns the seed of everything random: HONE_SEED, or a new one for each process.
// The output of a failed test has it.
func seed(t *testing.T) uint64 {
	t.Helper()
	n, err := givenSeed()
	if err != nil {
		t.Fatalf("HONE_SEED: %v", err)
	}
	t.Logf("HONE_SEED=%d", n)
	return n
}

var givenSeed = sync.OnceValues(func() (uint64, error) {
	if given := os.Getenv("HONE_SEED"); given != "" {
		return strconv.ParseUint(given, 10, 64)
	}
	return rand.Uint64(), nil
})

// drainBegins waits until s no longer accepts.
func drainBegins(t *testing.T, s interface{ Serve(net.Listener) error }) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close() // fails unless the server is draining
	eventually(t, "the drain has begun", func() bool { return s.Serve(ln) == framed.ErrServerClosed })
}
