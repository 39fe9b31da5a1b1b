package gateway

import (
	"bytes"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/wire"
)

// These tests run the package in gateway/python, which was written from docs/gateway.md and docs/readers.md alone.

// python makes a command: Python with the package and these arguments.
func python(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		testrun.Lacks(t, "python3 is missing; make deps installs it")
	}
	cmd := exec.CommandContext(soon(t), path, append([]string{"-B"}, args...)...)
	cmd.Env = append(os.Environ(), "PYTHONPATH=python")
	return cmd
}

// honed runs a verb of the package to its end.
func honed(t *testing.T, stdin string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	cmd := python(t, append([]string{"-m", "honed"}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// countUp is a line for each number.
func countUp(from, to int) string {
	var lines strings.Builder
	for n := from; n <= to; n++ {
		fmt.Fprintln(&lines, n)
	}
	return lines.String()
}

// mustCount fails unless the log has the numbers from 1 to n of client meter, each once and in order.
func mustCount(t *testing.T, log *gate, n int) {
	t.Helper()
	got := records(t, log)["meter"]
	for i, data := range got {
		if data != fmt.Sprint(i+1) {
			t.Fatalf("record %d is %q", i+1, data)
		}
	}
	if len(got) != n {
		t.Fatalf("%d records instead of %d", len(got), n)
	}
}

// TestPythonSessions continues a session from its file in several runs, and has other programs use its name.
func TestPythonSessions(t *testing.T) {
	t.Parallel() // it waits more than it works
	log := newGate()
	up := serve(t, &Server{Log: log})
	folder := t.TempDir()
	store := func(name string) string { return filepath.Join(folder, name) }
	send := func(name, lines string) (string, error) {
		_, said, err := honed(t, lines, "send", up.addr, "meter", "--store", store(name))
		return said, err
	}
	duplicate := func(name string) {
		data, err := os.ReadFile(store("first"))
		if err == nil {
			err = os.WriteFile(store(name), data, 0o600)
		}
		must(t, err)
	}
	each := testrun.Sized(8, 50) // it stores each line with an fsync
	for from := range 3 {
		if said, err := send("first", countUp(from*each+1, from*each+each)); err != nil || said != "" {
			t.Fatal(err, said)
		}
		if from == 1 {
			duplicate("copy")
		}
	}
	mustCount(t, log, 3*each)
	if said, err := send("copy", "1\n"); err == nil || !strings.Contains(said, fmt.Sprintf("refused: message %d is stored, which this program has not sent", 3*each)) {
		t.Error("the copy of an older file:", err, said)
	}
	// A copy has as many messages, but others, before it connects.
	alone := fmt.Sprintf(`
from honed import Client
with Client(("127.0.0.1", 9), "meter", %q) as client:
    while client.stored < %d:
        client.put(b"other")`, store("copy"), 3*each)
	if out, err := python(t, "-c", alone).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if said, err := send("copy", ""); err == nil || !strings.Contains(said, "refused: other messages are stored than this program has sent") {
		t.Error("a copy with other messages:", err, said)
	}
	if said, err := send("second", "1\n"); err != nil || said != "" {
		t.Fatal(err, said)
	}
	if said, err := send("first", "1\n"); err == nil || !strings.Contains(said, "refused: 64 fenced") {
		t.Error("a newer session has begun:", err, said)
	}
	if _, said, err := honed(t, "", "send", up.addr, "other", "--store", store("first")); err == nil || !strings.Contains(said, "is the file of client meter") {
		t.Error("another client's file:", err, said)
	}
}

// cutter passes connections on to a server, and cuts each after at most some bytes in a direction.
type cutter struct {
	net.Listener
	cuts    atomic.Int64
	running sync.WaitGroup
}

func cut(t *testing.T, addr string, most int64) *cutter {
	ln := listen(t)
	c := &cutter{Listener: ln}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	c.running.Go(func() {
		for {
			near, err := ln.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", addr)
			if err != nil {
				t.Error(err)
				near.Close()
				return
			}
			c.pass(near, far, 100+random.Int64N(most))
			c.pass(far, near, 100+random.Int64N(most))
		}
	})
	t.Cleanup(func() { ln.Close(); c.running.Wait() })
	return c
}

// pass copies until a limit or an end, and then ends both directions.
func (c *cutter) pass(from, to net.Conn, limit int64) {
	c.running.Go(func() {
		if n, _ := io.CopyN(to, from, limit); n == limit {
			c.cuts.Add(1)
		}
		from.Close()
		to.Close()
	})
}

// TestPythonClientGoesOn kills the client's process again and again and cuts its connections: each message is
// stored once and in order.
func TestPythonClientGoesOn(t *testing.T) {
	t.Parallel() // it waits more than it works
	log := newGate()
	up := serve(t, &Server{Log: log})
	c := cut(t, up.addr, 3000)
	host, port, _ := net.SplitHostPort(c.Addr().String())
	count, kills := testrun.Sized(600, 2000), 4
	program := fmt.Sprintf(`
from honed import Client
with Client((%q, %s), "meter", %q) as client:
    while client.stored < %d:
        client.put(b"%%d" %% (client.stored + 1))
    client.flush()`, host, port, filepath.Join(t.TempDir(), "store"), count)
	for kill := range kills {
		cmd := python(t, "-c", program)
		must(t, cmd.Start())
		waitFor(t, "progress", func() bool { return up.Stats().Records > uint64(kill*count/kills) })
		cmd.Process.Kill()
		cmd.Wait()
	}
	if out, err := python(t, "-c", program).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	mustCount(t, log, count)
	if c.cuts.Load() < 2 {
		t.Errorf("%d cuts", c.cuts.Load())
	}
	t.Logf("%d cuts, %d duplicates", c.cuts.Load(), up.Stats().Duplicates)
}

// TestPythonClientStoresAlone has a client store more messages before it connects than its thread can be woken for.
func TestPythonClientStoresAlone(t *testing.T) {
	t.Parallel() // it waits more than it works
	ln := listen(t)
	host, port, _ := net.SplitHostPort(ln.Addr().String())
	const count = 2000
	cmd := python(t, "-c", fmt.Sprintf(`
from honed import Client
with Client((%q, %s), "meter", ":memory:") as client:
    for n in range(%d):
        client.put(b"%%d" %% (n + 1))
    print("stored", flush=True)
    client.flush()`, host, port, count))
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		_, err = io.ReadFull(stdout, make([]byte, len("stored\n")))
	}
	must(t, err)
	log := newGate()
	serveOn(t, &Server{Log: log}, ln)
	must(t, cmd.Wait())
	mustCount(t, log, count)
}

// TestPythonNoticesSilence has a server that says nothing after its first answer: it gets heartbeats, and then another
// connection. Meanwhile the client stores messages without a pause.
func TestPythonNoticesSilence(t *testing.T) {
	idle := binary.BigEndian.AppendUint32(nil, 3)
	for _, c := range []struct {
		args   []string
		answer []byte
	}{
		{[]string{"send"}, append([]byte("hgw2\x02\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x0a\x00\x00\x03\xe8"), append(idle, idle...)...)},
		{[]string{"read"}, append(append([]byte("hgr1"), make([]byte, 40)...), idle...)},
	} {
		t.Run(c.args[0], func(t *testing.T) {
			t.Parallel() // it waits
			ln := listen(t)
			defer ln.Close()
			cmd := python(t, "-m", "honed", c.args[0], ln.Addr().String(), "meter")
			var said strings.Builder
			cmd.Stdin, cmd.Stderr = endless("21.5\n"), &said
			must(t, cmd.Start())
			defer cmd.Wait()
			defer cmd.Process.Kill()
			ln.(*net.TCPListener).SetDeadline(time.Now().Add(patience))
			accept := func() *peer {
				nc, err := ln.Accept()
				must(t, err)
				t.Cleanup(func() { nc.Close() })
				nc.SetDeadline(time.Now().Add(patience / 2))
				return &peer{t, nc}
			}
			p := accept()
			works(t)(p.receive())
			p.send(wire.Packet{Command: wire.ConnAck, ID: 1, Content: c.answer})
			heartbeats := 0
			packet, err := p.receive()
			for ; err == nil; packet, err = p.receive() {
				if packet.Command == wire.Conn {
					heartbeats++
				}
			}
			if heartbeats != 2 {
				t.Fatalf("%d heartbeats, then %v", heartbeats, err)
			}
			accept()
			cmd.Process.Kill()
			cmd.Wait()
			if !strings.Contains(said.String(), "the server is silent") {
				t.Error(said.String())
			}
		})
	}
}

// endless is a Reader of one line again and again.
type endless string

func (e endless) Read(b []byte) (int, error) { return copy(b, e), nil }

// TestPythonTLS sends and reads as a deployment does: with TLS, the program's certificate and a token file.
func TestPythonTLS(t *testing.T) {
	t.Parallel() // it waits more than it works
	tokens := tokensWith(t, "meter the-token-of-the-meter", "copy the-token-of-the-reader reads")
	authority, up := certified(t, &Server{Log: newGate(), Tokens: tokens}, engine.NewTLSListener)
	program := authority.client(t, &x509.Certificate{})
	key, err := x509.MarshalPKCS8PrivateKey(program.key)
	must(t, err)
	trusted, cert := filepath.Join(t.TempDir(), "ca.pem"), filepath.Join(t.TempDir(), "cert.pem")
	for file, blocks := range map[string][]*pem.Block{
		trusted: {{Type: "CERTIFICATE", Bytes: authority.cert.Raw}},
		cert:    {{Type: "PRIVATE KEY", Bytes: key}, {Type: "CERTIFICATE", Bytes: program.cert.Raw}},
	} {
		var text []byte
		for _, block := range blocks {
			text = append(text, pem.EncodeToMemory(block)...)
		}
		must(t, os.WriteFile(file, text, 0o600))
	}
	for _, c := range []struct {
		token  string
		out    string
		said   string
		refuse bool
		args   []string
	}{
		{"the-token-of-the-meter", "", "", false, []string{"send", up.addr, "meter"}},
		{"the-token-of-the-reader\n", `"data": "MQ=="`, "", false, []string{"read", up.addr, "copy", "--count", "1"}},
		{"another-token-there-is", "", "refused: 6 unauthorised", true, []string{"read", up.addr, "copy"}},
	} {
		out, said, err := honed(t, "1\n", append(c.args, "--ca", trusted, "--cert", cert, "--token-file", tokensOf(t, 0o600, c.token))...)
		if (err != nil) != c.refuse || !strings.Contains(out, c.out) || !strings.Contains(said, c.said) {
			t.Errorf("%v: %v\n%s%s", c.args, err, out, said)
		}
	}
}

// TestPythonReader reads everything once and in order, over connections that are cut and in a second run, and is refused.
func TestPythonReader(t *testing.T) {
	t.Parallel() // it waits more than it works
	tokens := tokensWith(t, "copy the-token-of-the-reader reads", "a the-token-of-client-a")
	var log Memory
	up := serve(t, &Server{Log: &log, Tokens: tokens, positionTime: time.Millisecond})
	through := cut(t, up.addr, 2<<20)
	c := &Client{Addrs: []string{up.addr}, ID: "a", Token: "the-token-of-client-a"}
	t.Cleanup(func() { c.Close(soon(t)) })
	submit := func(n int) {
		for range n {
			works(t)(c.SubmitAsync(soon(t), bytes.Repeat([]byte("x"), 300), nil))
		}
		must(t, c.Flush(soon(t)))
	}
	seq := uint64(0)
	read := func(n int, start string) {
		t.Helper()
		out, said, err := honed(t, "", "read", through.Addr().String(), "copy", "--token-file", tokensOf(t, 0o600, "the-token-of-the-reader"),
			"--start", start, "--count", fmt.Sprint(n))
		if err != nil {
			t.Fatal(err, said)
		}
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if len(lines) != n {
			t.Fatalf("%d lines instead of %d", len(lines), n)
		}
		for _, line := range lines {
			var m struct {
				Client string
				Seq    uint64
				Data   []byte
			}
			if err := json.Unmarshal([]byte(line), &m); err != nil || m.Client != "a" || m.Seq != seq+1 || len(m.Data) != 300 {
				t.Fatalf("%v: %.200s after %d", err, line, seq)
			}
			seq++
		}
	}
	submit(10_000) // more than the window
	read(10_000, "first")
	waitFor(t, "its position", func() bool { return up.state("copy").Position.Number == up.newest()<<indexBits|lastIndex }) // all of the last envelope
	submit(100)
	read(100, "stored")
	if through.cuts.Load() < 1 {
		t.Error("no connection was cut")
	}
	for _, more := range [][]string{{"the-token-of-client-a"}, {"the-token-of-the-reader", "--share", "1/2"}} {
		out, said, err := honed(t, "", append([]string{"read", up.addr, "copy", "--token-file", tokensOf(t, 0o600, more[0])}, more[1:]...)...)
		if err == nil || !strings.Contains(said, "refused") || out != "" {
			t.Errorf("%v: %v, %s, %.200s", more, err, said, out)
		}
	}
}

// TestPythonTopics: a program that wants the topics of a prefix reads these and nothing else.
func TestPythonTopics(t *testing.T) {
	t.Parallel() // it waits more than it works
	up := serve(t, &Server{Log: newGate()})
	p := posts(t, up.Server)
	for _, path := range []string{"/v1/a/site/7", "/v1/b", "/v1/b/site", "/v1/b/site/8"} {
		p.want("204", "POST", path, path)
	}
	out, said, err := honed(t, "", "read", up.addr, "copy", "--topic", "site/", "--count", "2")
	if err != nil || strings.Count(out, "\n") != 2 || !strings.Contains(out, `"client": "a"`) || !strings.Contains(out, `"client": "b", "epoch"`) || !strings.Contains(out, `"seq": 3`) {
		t.Errorf("%v\n%s%s", err, out, said)
	}
}
