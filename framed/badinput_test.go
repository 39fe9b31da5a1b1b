package framed_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"io"
	"math/big"
	"math/rand/v2"
	"net"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/wire"
)

// badInput is something that no client of the protocol sends, and the expected refusal.
type badInput struct {
	name string
	in   []byte
	code wire.Result
	why  engine.Reason
}

func badInputs(t *testing.T) []badInput {
	t.Helper()
	var all []badInput
	add := func(why engine.Reason, code wire.Result, name string, in []byte) {
		all = append(all, badInput{name, in, code, why})
	}
	for n := range uint32(wire.MinFrame) {
		add(engine.Malformed, wire.Malformed, fmt.Sprintf("length %d", n), binary.BigEndian.AppendUint32(nil, n))
	}
	for _, n := range []uint32{64<<10 + 1, 0x40000000, 0x7fffffff, 0x80000000, 0xffffffff} {
		add(engine.TooLarge, wire.TooLarge, fmt.Sprintf("length %#x", n), binary.BigEndian.AppendUint32(nil, n))
	}
	for n := range 8 {
		add(engine.Malformed, wire.Malformed, fmt.Sprintf("Submit with a body of %d", n), frameOf(byte(wire.Submit), n))
		add(engine.Malformed, wire.Malformed, fmt.Sprintf("Conn with a body of %d", n), frameOf(byte(wire.Conn), n))
	}
	for _, command := range []byte{0x00, 0x04, 0x7f, 0x80, 0x83, 0xff} {
		add(engine.UnknownCommand, wire.UnknownCommand, fmt.Sprintf("command %#x", command), frameOf(command, 12))
		add(engine.UnknownCommand, wire.UnknownCommand, fmt.Sprintf("command %#x alone", command), frameOf(command, 0))
	}
	for _, command := range []wire.Command{wire.Deliver, wire.ConnAck, wire.SubmitAck} {
		p := wire.Packet{Command: command, ID: 7, Content: []byte("from a server")}
		add(engine.UnknownCommand, wire.UnknownCommand, command.String()+" to a server", wire.Append(nil, p))
	}
	random := replayable(t)
	for i := range 4 {
		garbage := randomBytes(random, 64)
		garbage[0] |= 1 // a length of at least 16 MiB
		add(engine.TooLarge, wire.TooLarge, fmt.Sprintf("garbage %d", i), garbage)
	}
	add(engine.TooLarge, wire.TooLarge, "HTTP", []byte("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"))
	add(engine.TooLarge, wire.TooLarge, "TLS", clientHello(t))
	add(engine.TooLarge, wire.TooLarge, "PROXY line from nobody trusted", []byte("PROXY TCP4 203.0.113.7 127.0.0.1 1234 80\r\n"))
	add(engine.TooLarge, wire.TooLarge, "PROXY signature from nobody trusted", proxyV2(0x21, 0x11, make([]byte, 12)))
	return all
}

// frameOf returns a whole frame with a body of n bytes.
func frameOf(command byte, n int) []byte {
	return append(append(binary.BigEndian.AppendUint32(nil, uint32(wire.MinFrame+n)), command), make([]byte, n)...)
}

// replayable returns a random source whose seed is logged, and taken from HONE_SEED if
// set.
func replayable(t *testing.T) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(seed(t), 0))
}

func randomBytes(random *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}

// clientHello returns the first bytes that a TLS client sends.
func clientHello(t *testing.T) []byte {
	t.Helper()
	client, server := net.Pipe()
	hello := make(chan []byte, 1)
	go func() {
		b := make([]byte, 16<<10)
		n, _ := server.Read(b)
		server.Close()
		hello <- b[:n]
	}()
	if err := tls.Client(client, &tls.Config{ServerName: "localhost"}).Handshake(); err == nil {
		t.Fatal("the handshake succeeded without a server")
	}
	client.Close()
	return <-hello
}

// tlsConfig returns a server's configuration with a self-signed certificate.
func tlsConfig(t *testing.T) *tls.Config {
	t.Helper()
	config, err := newTLSConfig()
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// newTLSConfig is tlsConfig for a role.
func newTLSConfig() (*tls.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	if err != nil {
		return nil, err
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(crand.Reader, about, about, &key.PublicKey, key)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, err
}

// serveTLS is serve with TLS.
func serveTLS(t *testing.T, s *framed.Server) string {
	t.Helper()
	ln, err := tls.Listen("tcp", "127.0.0.1:0", tlsConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, s, ln)
}

func dialTLS(t *testing.T, addr string) *peer {
	t.Helper()
	nc, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	return peerOf(t, nc)
}

// exchange sends a request and checks its reply.
func (p *peer) exchange(id uint64, content string) {
	p.t.Helper()
	p.send(submit(id, content))
	p.want(ack(id, content))
}

// pour sends b while the caller reads; the peer may stop reading.
func (p *peer) pour(b []byte) (poured chan struct{}) {
	poured = make(chan struct{})
	go func() {
		defer close(poured)
		p.Write(b)
	}()
	p.t.Cleanup(func() {
		p.Close()
		<-poured
	})
	return poured
}

// Bad input affects only its own connection: earlier requests are answered, the client
// gets a refusal whatever else it has in flight, and all other connections keep working.
func TestBadInputIsRefusedWithItsCodeAndOnlyThere(t *testing.T) {
	inputs := badInputs(t)
	tail := bytes.Repeat([]byte("in flight"), 30_000)
	run(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo)}
		addr := serve(t, s)
		neighbour := dial(t, addr)
		counted := map[engine.Reason]uint64{}
		for i, bad := range inputs {
			for _, behind := range [][]byte{nil, tail} {
				name := fmt.Sprintf("%s followed by %d bytes", bad.name, len(behind))
				p := dial(t, addr)
				poured := p.pour(append(append(submit(1, "before"), bad.in...), behind...))
				p.want(ack(1, "before"))
				if got := p.packet(); got.Command != wire.ConnAck || got.ID != 0 || got.Result != bad.code {
					t.Fatalf("%s: got %+v, want ConnAck 0 with result %v", name, got, bad.code)
				}
				p.wantEnd()
				<-poured
				p.Close()
				counted[bad.why]++
				ended(t, s, bad.why, counted[bad.why])
			}
			neighbour.exchange(uint64(i), "still here")
		}
		wantCounted(t, s, counted)
	})
}

// wantCounted compares all counters of ended connections.
func wantCounted(t *testing.T, s *framed.Server, want map[engine.Reason]uint64) {
	t.Helper()
	for why, n := range s.Stats().Ended {
		if n != want[engine.Reason(why)] {
			t.Errorf("counted %d ended for %v, want %d", n, engine.Reason(why), want[engine.Reason(why)])
		}
	}
}

// The article's decoder made a slice of length -1 from this input, which crashed the
// process with all its connections.
func TestFourBytesKilledTheArticlesServer(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo)}
		addr := serve(t, s)
		neighbour := dial(t, addr)
		neighbour.exchange(1, "before")
		p := dial(t, addr)
		p.send([]byte{0, 0, 0, 3})
		p.wantRefusal(wire.Malformed)
		p.Close()
		ended(t, s, engine.Malformed, 1)
		neighbour.exchange(2, "after")
		dial(t, addr).exchange(3, "and new ones")
	})
}

func TestFrameOfExactlyTheLimitIsServed(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo), Limits: engine.Limits{FrameSize: 100}}
		p := dial(t, serve(t, s))
		p.exchange(1, string(make([]byte, 100-13)))
		p.send(submit(2, string(make([]byte, 100-12))))
		p.wantRefusal(wire.TooLarge)
		p.Close()
		ended(t, s, engine.TooLarge, 1)
	})
}

func TestBadInputIsRefusedOverTLSAndUnixSocketsToo(t *testing.T) {
	run(t, func(t *testing.T, e engine.Engine) {
		for _, bad := range []badInput{
			{"length 3", []byte{0, 0, 0, 3}, wire.Malformed, engine.Malformed},
			{"length 1 GiB", []byte{0x40, 0, 0, 0}, wire.TooLarge, engine.TooLarge},
			{"command 0x7f", frameOf(0x7f, 8), wire.UnknownCommand, engine.UnknownCommand},
		} {
			tail := make([]byte, 100_000)
			t.Run("tls/"+bad.name, func(t *testing.T) {
				s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo)}
				p := dialTLS(t, serveTLS(t, s))
				poured := p.pour(append(append(submit(1, "before"), bad.in...), tail...))
				p.want(ack(1, "before"))
				p.wantRefusal(bad.code)
				<-poured
				p.Close()
				ended(t, s, bad.why, 1)
			})
			t.Run("unix/"+bad.name, func(t *testing.T) {
				if runtime.GOOS == "windows" {
					t.Skip("needs unix sockets")
				}
				ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
				if err != nil {
					t.Fatal(err)
				}
				s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo)}
				serveOn(t, s, ln)
				p := dialOn(t, "unix", ln.Addr().String())
				poured := p.pour(append(append(submit(1, "before"), bad.in...), tail...))
				p.want(ack(1, "before"))
				p.wantRefusal(bad.code)
				<-poured
				p.Close()
				ended(t, s, bad.why, 1)
			})
		}
	})
}

func TestBytesThatAreNoTLSEndThatConnectionOnly(t *testing.T) {
	runPlain(t, func(t *testing.T, e engine.Engine) {
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo)}
		addr := serveTLS(t, s)
		for _, in := range [][]byte{submit(1, "in the clear"), []byte("GET / HTTP/1.1\r\n\r\n"), make([]byte, 1000)} {
			p := dial(t, addr)
			p.send(in)
			io.Copy(io.Discard, p) // an alert or a reset, as TLS decides
			p.Close()
		}
		ended(t, s, engine.Malformed, 3)
		dialTLS(t, addr).exchange(1, "with a handshake")
	})
}

// oracle is a model of the protocol: what an echo server replies to in, why it ends the
// connection (0: it does not), and how many bytes it needs for that.
func oracle(in []byte, limit uint32) (out []byte, why engine.Reason, used int) {
	refuse := func(why engine.Reason, code wire.Result, used int) ([]byte, engine.Reason, int) {
		return append(out, 0, 0, 0, 14, 0x81, 0, 0, 0, 0, 0, 0, 0, 0, byte(code)), why, used
	}
	for len(in)-used >= 4 {
		frame := in[used:]
		length := binary.BigEndian.Uint32(frame)
		switch {
		case length < 5:
			return refuse(engine.Malformed, wire.Malformed, used+4)
		case length > limit:
			return refuse(engine.TooLarge, wire.TooLarge, used+4)
		case uint32(len(frame)) < length:
			return out, 0, used
		}
		frame = frame[:length]
		used += int(length)
		switch command := frame[4]; {
		case command == 1 && length >= 13:
			out = append(out, 0, 0, 0, 14, 0x81)
			out = append(append(out, frame[5:13]...), 0)
		case command == 2 && length >= 13:
			out = binary.BigEndian.AppendUint32(out, length+1)
			out = append(append(out, 0x82), frame[5:13]...)
			out = append(append(out, 0), frame[13:]...)
		case (command == 1 || command == 2 || command == 3) && length < 13, (command == 0x81 || command == 0x82) && length < 14:
			return refuse(engine.Malformed, wire.Malformed, used)
		default:
			return refuse(engine.UnknownCommand, wire.UnknownCommand, used)
		}
	}
	return out, 0, used
}

// randomStream returns some valid frames and then, usually, bad input.
func randomStream(random *rand.Rand, bad []badInput) (in []byte) {
	for range random.IntN(8) {
		switch random.IntN(4) {
		case 0:
			in = wire.Append(in, wire.Packet{Command: wire.Conn, ID: random.Uint64(), Content: randomBytes(random, random.IntN(20))})
		case 1:
			in = append(in, submit(random.Uint64(), string(randomBytes(random, random.IntN(6000))))...)
		default:
			in = append(in, submit(random.Uint64(), string(randomBytes(random, random.IntN(40))))...)
		}
	}
	switch random.IntN(4) {
	case 0: // a frame of random bytes
		n := random.IntN(30)
		frame := frameOf(byte(random.UintN(256)), n)
		copy(frame[5:], randomBytes(random, n))
		in = append(in, frame...)
	case 1:
		in = append(in, bad[random.IntN(len(bad))].in...)
	case 2:
		in = append(in, submit(1, "never whole")[:random.IntN(20)]...)
	}
	if random.IntN(2) == 0 {
		in = append(in, randomBytes(random, random.IntN(300))...)
	}
	return in
}

// Replies depend only on the bytes sent: not on the engine, and not on how the network
// splits them.
func TestSameBytesGetTheSameAnswerHoweverTheyAreSplit(t *testing.T) {
	random := replayable(t)
	bad := badInputs(t)
	streams := make([][]byte, 10)
	if testrun.All() && !testrun.Race {
		streams = make([][]byte, 40)
	}
	for i := range streams {
		streams[i] = randomStream(random, bad)
	}
	run(t, func(t *testing.T, e engine.Engine) {
		random := replayable(t) // not shared with the other engines
		splits := []struct {
			name string
			next func(rest int) int
		}{
			{"whole", func(rest int) int { return rest }},
			{"byte by byte", func(int) int { return 1 }},
			{"at random", func(rest int) int { return min(rest, 1+random.IntN(1+random.IntN(2000))) }},
		}
		// On a busy machine, sending a stream byte by byte takes longer than FrameTime.
		s := &framed.Server{Engine: e, Handler: framed.HandlerFunc(echo), Limits: engine.Limits{FrameTime: -1}}
		addr := serve(t, s)
		counted := map[engine.Reason]uint64{}
		for i, in := range streams {
			for _, split := range splits {
				if split.name == "byte by byte" && len(in) > 1500 {
					continue
				}
				want, why, used := oracle(in, 64<<10)
				if why == 0 {
					why, used = engine.PeerClosed, len(in)
				}
				p := dial(t, addr)
				p.SetDeadline(time.Now().Add(4 * patience)) // for up to 1500 round trips
				done := make(chan struct{})
				go func() {
					defer close(done)
					sendSplit(p, s, in, used, split.next)
				}()
				got, err := io.ReadAll(p.r)
				<-done
				p.Close()
				if err != nil || !bytes.Equal(got, want) {
					t.Fatalf("stream %d %s: got % x (%v)\nwant % x\nfor % x", i, split.name, got, err, want, in)
				}
				counted[why]++
				ended(t, s, why, counted[why])
			}
		}
		wantCounted(t, s, counted)
	})
}

// sendSplit sends in in pieces, each after the server has read the previous one, up to
// observed bytes; then it half-closes.
func sendSplit(p *peer, s *framed.Server, in []byte, observed int, next func(rest int) int) {
	before := s.Stats().BytesIn
	for sent := 0; sent < len(in); {
		n := next(len(in) - sent)
		if sent >= observed {
			n = len(in) - sent
		}
		if _, err := p.Write(in[sent : sent+n]); err != nil {
			return // the reader reports the error
		}
		sent += n
		if sent < observed {
			awaitRead(s, before+uint64(sent))
		}
	}
	p.Conn.(*net.TCPConn).CloseWrite()
}

// awaitRead waits until the server has read n bytes in total. It spins briefly, because
// that takes microseconds unless the machine is busy.
func awaitRead(s *framed.Server, n uint64) {
	deadline := time.Now().Add(patience)
	for spins := 0; s.Stats().BytesIn < n && time.Now().Before(deadline); spins++ {
		if spins < 20 {
			runtime.Gosched()
		} else {
			<-time.After(50 * time.Microsecond)
		}
	}
}
