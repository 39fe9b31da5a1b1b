package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/internal/testrun"
)

// TestMain runs the tests, or the example itself for tests that need it as a separate process.
func TestMain(m *testing.M) {
	if os.Getenv("HONE_TEST_ROLE") == "example" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// patience limits everything that a test waits for.
const patience = 30 * time.Second

// onEveryEngine runs a test on every engine, new ones included.
func onEveryEngine(t *testing.T, test func(t *testing.T, e engine.Engine)) {
	for _, e := range engine.All() {
		t.Run(e.Name(), func(t *testing.T) { test(t, e) })
	}
}

// start runs a server until the test ends.
func start(t *testing.T, srv *engine.Server) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- serve(t.Context(), srv, ln) }()
	t.Cleanup(func() {
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return ln.Addr().String()
}

func dial(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(patience))
	return nc.(*net.TCPConn)
}

// want reads exactly what is wanted.
func want(t *testing.T, nc io.Reader, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(nc, got); string(got[:n]) != want {
		t.Fatalf("read %.200q, %v; want %.200q", got[:n], err, want)
	}
}

// conversation is what is asked, and what is answered to it.
var conversation = [][2]string{
	{command("PING"), "+PONG\r\n"},
	{"ping hello\r\n", "$5\r\nhello\r\n"},
	{command("ECHO", "année"), "$6\r\nannée\r\n"},
	{command("GET", "k"), "$-1\r\n"},
	{command("SET", "k", "a\r\nb"), "+OK\r\n"},
	{command("get", "k"), "$4\r\na\r\nb\r\n"},
	{command("INCR", "k"), "-ERR value is not an integer or out of range\r\n"},
	{command("INCR", "n") + command("INCR", "n"), ":1\r\n:2\r\n"},
	{command("SET", "n", "9223372036854775807"), "+OK\r\n"},
	{command("INCR", "n"), "-ERR value is not an integer or out of range\r\n"},
	{command("DEL", "n", "k", "n", "x"), ":2\r\n"},
	{command("GET"), "-ERR wrong number of arguments for GET\r\n"},
	{command("HELLO", "3"), "-ERR unknown command \"HELLO\"\r\n"},
	{command("a name that is longer than any", "3"), "-ERR unknown command \"a name that is longer than any\"\r\n"},
	{command("PUBLISH", "news", "x"), ":0\r\n"},
	{"*0\r\n\r\n", ""},
	{command("SUBSCRIBE", "a", "b"), "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n"},
	{command("GET", "k"), "-ERR GET is not allowed to a subscriber\r\n"},
	{command("PING"), "*2\r\n$4\r\npong\r\n$0\r\n\r\n"},
	{command("UNSUBSCRIBE", "a"), "*3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:1\r\n"},
	{command("UNSUBSCRIBE"), "*3\r\n$11\r\nunsubscribe\r\n$1\r\nb\r\n:0\r\n"},
	{command("UNSUBSCRIBE"), "*3\r\n$11\r\nunsubscribe\r\n$-1\r\n:0\r\n"},
	{command("QUIT"), "+OK\r\n"},
}

func TestConversation(t *testing.T) {
	var asked, answered strings.Builder
	for _, part := range conversation {
		asked.WriteString(part[0])
		answered.WriteString(part[1])
	}
	onEveryEngine(t, func(t *testing.T, e engine.Engine) {
		t.Run("turns", func(t *testing.T) {
			nc := dial(t, start(t, newServer(e, 1<<20)))
			for _, part := range conversation {
				io.WriteString(nc, part[0])
				want(t, nc, part[1])
			}
		})
		t.Run("at once", func(t *testing.T) {
			nc := dial(t, start(t, newServer(e, 1<<20)))
			io.WriteString(nc, asked.String())
			want(t, nc, answered.String())
			if rest, err := io.ReadAll(nc); len(rest) > 0 || err != nil {
				t.Errorf("after QUIT: %q, %v", rest, err)
			}
		})
		t.Run("byte by byte", func(t *testing.T) {
			nc := dial(t, start(t, newServer(e, 1<<20)))
			for _, b := range []byte(asked.String()) {
				if _, err := nc.Write([]byte{b}); err != nil {
					t.Fatal(err)
				}
			}
			want(t, nc, answered.String())
		})
	})
}

func TestRefusals(t *testing.T) {
	for _, test := range []struct{ name, ask, want string }{
		{"malformed", command("PING") + "*1\r\nPING\r\n", "+PONG\r\n-ERR Protocol error: malformed\r\n"},
		{"value too large", "*2\r\n$4\r\nECHO\r\n$1048577\r\n", "-ERR Protocol error: too_large\r\n"},
		{"too many words", "*1025\r\n", "-ERR Protocol error: too_large\r\n"},
		{"line too long", strings.Repeat("x", mostLine), "-ERR Protocol error: too_large\r\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			onEveryEngine(t, func(t *testing.T, e engine.Engine) {
				nc := dial(t, start(t, newServer(e, 1<<20)))
				io.WriteString(nc, test.ask)
				if got, err := io.ReadAll(nc); string(got) != test.want || err != nil {
					t.Errorf("read %q, %v; want %q", got, err, test.want)
				}
			})
		})
	}
}

// The store takes no more memory than it may, and keeps what it has.
func TestFull(t *testing.T) {
	s := newStore(1000)
	for i := range 9 {
		if got := s.set(nil, fmt.Appendf(nil, "k%d", i), []byte("0123456789")); (string(got) == "+OK\r\n") != (i < 8) {
			t.Errorf("set %d: %q", i, got)
		}
	}
	if got := s.set(nil, []byte("k1"), make([]byte, 200)); !bytes.HasPrefix(got, []byte("-OOM")) {
		t.Errorf("a larger value: %q", got)
	}
	if got := s.get(nil, []byte("k1")); string(got) != "$10\r\n0123456789\r\n" {
		t.Errorf("its old value: %q", got)
	}
	for i := range 8 {
		s.del([][]byte{fmt.Appendf(nil, "k%d", i)})
	}
	if left := s.bytes.Load(); left != 0 {
		t.Errorf("an empty store takes %d bytes", left)
	}
}

// A subscriber gets the answer to SUBSCRIBE before the first message, and then every message in
// order, while another client publishes without a pause.
func TestSubscribe(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, e engine.Engine) {
		addr := start(t, newServer(e, 1<<20))
		stop, published := make(chan bool), make(chan error, 1)
		publisher := dial(t, addr)
		go func() {
			answers := bufio.NewReader(publisher)
			for i := 0; ; i++ {
				select {
				case <-stop:
					published <- nil
					return
				default:
				}
				io.WriteString(publisher, command("PUBLISH", "news", fmt.Sprintf("%08d", i)))
				if _, err := answers.ReadString('\n'); err != nil {
					published <- err
					return
				}
			}
		}()
		ask, answer := []string{"SUBSCRIBE"}, "" // many channels, so that messages come meanwhile
		for i := range mostChannels - 1 {
			ask = append(ask, fmt.Sprintf("%04d", i))
			answer += fmt.Sprintf("*3\r\n$9\r\nsubscribe\r\n$4\r\n%04d\r\n:%d\r\n", i, i+2)
		}
		ask = slices.Insert(ask, 1, "news")
		for range 20 {
			nc := dial(t, addr)
			io.WriteString(nc, command(ask...))
			in := bufio.NewReader(nc)
			want(t, in, "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n"+answer)
			last := -1
			for range 5 {
				want(t, in, "*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$8\r\n")
				var n int
				if _, err := fmt.Fscanf(in, "%08d\r\n", &n); err != nil || last >= 0 && n != last+1 {
					t.Fatalf("message %d after %d, %v", n, last, err)
				}
				last = n
			}
			nc.Close()
		}
		close(stop)
		if err := <-published; err != nil {
			t.Error(err)
		}
	})
}

// A subscriber that does not read is disconnected; it delays nobody and leaves nothing behind.
func TestDeafSubscriber(t *testing.T) {
	onEveryEngine(t, func(t *testing.T, e engine.Engine) {
		srv := newServer(e, 1<<20)
		addr := start(t, srv)
		deaf := dial(t, addr)
		deaf.SetReadBuffer(4 << 10)
		io.WriteString(deaf, command("SUBSCRIBE", "news"))
		want(t, deaf, "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n")
		nc := dial(t, addr)
		in := bufio.NewReader(nc)
		message := command("PUBLISH", "news", strings.Repeat("x", 64<<10))
		for answer := ""; answer != ":0\r\n"; {
			io.WriteString(nc, message)
			var err error
			if answer, err = in.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		deaf.Close()
		for hub := srv.Protocol.(Protocol).Hub; ; {
			hub.mu.Lock()
			left := len(hub.listens) + len(hub.listeners)
			hub.mu.Unlock()
			if left == 0 {
				break
			}
			io.WriteString(nc, command("PING")) // until the connection has ended
			want(t, in, "+PONG\r\n")
		}
		if slow := srv.Stats().Ended[engine.SlowReader]; slow != 1 {
			t.Errorf("%d slow readers are counted", slow)
		}
	})
}

// GET and SET of a key that exists allocate nothing.
func TestNoAllocations(t *testing.T) {
	if testrun.Race {
		t.Skip("the race detector allocates")
	}
	p := newServer(engine.Engine{}, 1<<20).Protocol
	in := []byte(command("SET", "key", "value") + command("get", "key") + command("INCR", "n") + command("PING"))
	turn := engine.Turn{Out: make([]byte, 0, 1024)}
	if n := testing.AllocsPerRun(100, func() {
		turn.Out = turn.Out[:0]
		if used, _, err := p.Advance(&turn, in); used != len(in) || err != nil {
			t.Fatal(used, err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// The clients of Redis talk to it.
func TestRedisClients(t *testing.T) {
	for _, name := range []string{"redis-cli", "redis-benchmark"} {
		if _, err := exec.LookPath(name); err != nil {
			testrun.Lacks(t, name+" (make deps installs it)")
		}
	}
	onEveryEngine(t, func(t *testing.T, e engine.Engine) {
		srv := newServer(e, 1<<20)
		_, port, _ := net.SplitHostPort(start(t, srv))
		run := func(stdin, name string, args ...string) string {
			cmd := exec.CommandContext(t.Context(), name, append([]string{"-p", port}, args...)...)
			cmd.Stdin = strings.NewReader(stdin)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%s %q: %v\n%s", name, args, err, out)
			}
			return string(out)
		}
		if got := run("set greeting \"hello, world\"\nget greeting\nget nothing\nincr n\ndel n greeting\npublish news x\nkeys *\n", "redis-cli"); got !=
			"OK\nhello, world\n\n1\n2\n0\nERR unknown command \"keys\"\n\n" {
			t.Errorf("redis-cli printed %q", got)
		}
		before := srv.Stats().Requests
		count := testrun.Sized(5000, 200_000)
		out := run("", "redis-benchmark", "-q", "-t", "set,get,incr", "-n", fmt.Sprint(count), "-c", "20", "-P", "16")
		if n := len(regexp.MustCompile(`(SET|GET|INCR): [0-9.]+ requests per second`).FindAllString(out, -1)); n != 3 {
			t.Errorf("redis-benchmark printed %d results:\n%s", n, out)
		}
		if served := int(srv.Stats().Requests - before); served < 3*count {
			t.Errorf("%d commands were served, fewer than %d", served, 3*count)
		}
	})
}

// The program serves, drains on SIGTERM and says what it has served.
func TestProgram(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-addr", "127.0.0.1:0")
	cmd.Env = append(os.Environ(), "HONE_TEST_ROLE=example", "GORACE="+os.Getenv("GORACE")+" atexit_sleep_ms=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(stdout).ReadString('\n')
	m := regexp.MustCompile(`^listening on (\S+) `).FindStringSubmatch(line)
	if m == nil {
		t.Fatalf("printed %q", line)
	}
	nc := dial(t, m[1])
	io.WriteString(nc, command("PING"))
	want(t, nc, "+PONG\r\n")
	cmd.Process.Signal(syscall.SIGTERM)
	want(t, nc, "-ERR closed: shutting_down\r\n")
	nc.Close()
	if err := cmd.Wait(); err != nil || !strings.Contains(stderr.String(), "1 connections, 1 commands, ") {
		t.Errorf("%v, and printed %q", err, stderr.String())
	}
}
