package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hone-go/hone/gateway"
	"github.com/hone-go/hone/gateway/internal/commandline"
	"github.com/hone-go/hone/gateway/journal"
	"github.com/hone-go/hone/internal/testrun"
)

// empty is a folder with an empty database, which the first test that needs one makes.
var empty struct {
	sync.Once
	folder string
	err    error
}

// TestMain runs honed-relay when a test has started this binary as a child process.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "test-reader" {
		fmt.Fprintln(os.Stderr, playReader(os.Args[2]))
		os.Exit(1)
	}
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-test.") {
		main()
	}
	testrun.SideBySide(4)
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("internal/poll.runtime_pollWait"), goleak.Cleanup(func(code int) {
		os.RemoveAll(empty.folder)
		os.Exit(code)
	}))
}

// patience is how long a test waits for what must come.
func patience() time.Duration { return time.Duration(testrun.Sized(1, 10)) * time.Minute }

func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience())
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

// works ends the test with the error of a call that returns something, too.
func works(t testing.TB) func(any, error) {
	return func(_ any, err error) {
		t.Helper()
		must(t, err)
	}
}

// eventually waits until something holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience()); !holds(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s does not happen", what)
		}
	}
}

// server is a gateway in this process.
type server struct {
	t    testing.TB
	srv  *gateway.Server
	log  *journal.Segments
	addr string
}

// newServer serves a gateway until the test ends, with a segment for each envelope after some time. Its log may have 180 MB.
func newServer(t testing.TB, segment time.Duration) *server {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	log, err := journal.OpenSegments(t.TempDir(), journal.SegmentsOptions{MaxBytes: 180 << 20, SegmentTime: segment})
	must(t, err)
	s := &server{t: t, addr: ln.Addr().String(), log: log}
	s.srv = &gateway.Server{Log: log, Checkpoint: 1}
	ended := make(chan error, 1)
	go func() { ended <- s.srv.Serve(ln) }()
	t.Cleanup(func() {
		s.srv.Close()
		<-ended
		log.Close()
	})
	return s
}

func newGateway(t testing.TB) (addr string) { return newServer(t, 0).addr }

// trimPast deletes the beginning of the log, up to an envelope after pos.
func (s *server) trimPast(pos uint64) {
	s.t.Helper()
	eventually(s.t, "a trimmed log", func() bool {
		must(s.t, s.srv.Trim(soon(s.t), 1<<60))
		first, _, err := s.log.Bounds()
		return err != nil || first > pos+1
	})
}

// submit stores messages of a client: what data returns for 1, 2 … n.
func submit(t testing.TB, addr, client string, n int, data func(i int) string) {
	t.Helper()
	c := &gateway.Client{Addrs: []string{addr}, ID: client}
	for i := range n {
		works(t)(c.SubmitAsync(soon(t), []byte(data(i+1)), nil))
	}
	must(t, c.Close(soon(t)))
}

// steady submits a client's messages, at most a million, until stop is called, which returns how many there are.
func steady(t testing.TB, addr, client string) (stop func() int) {
	t.Helper()
	end, sent := make(chan struct{}), make(chan int, 1)
	go func() {
		n := 0
		defer func() { sent <- n }()
		c := &gateway.Client{Addrs: []string{addr}, ID: client}
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for n < 1_000_000 {
			select {
			case <-tick.C:
			case <-end:
				reports(t, c.Close(soon(t)))
				return
			}
			for range 4 {
				n++
				if _, err := c.SubmitAsync(soon(t), []byte(numbered(n)), nil); err != nil {
					t.Error(err)
					return
				}
			}
		}
	}()
	return func() int {
		close(end)
		return <-sent
	}
}

// numbered are messages that say which one they are.
func numbered(i int) string { return fmt.Sprintf(`{"n":%d}`, i) }

// relaying is a honed-relay process.
type child struct {
	t     testing.TB
	cmd   *exec.Cmd
	stdin io.Closer
	admin string
	ended chan struct{}

	mu   sync.Mutex
	said bytes.Buffer // standard error
}

func (c *child) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.said.Write(b)
}

func (c *child) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.said.String()
}

// startRelay starts a relay. Its standard output goes to out.
func startRelay(t testing.TB, out io.Writer, addr, data, to string, more ...string) *child {
	t.Helper()
	args := append([]string{"--from", "copy", "--addr", addr, "--data", data, "--to", to, "--admin", "127.0.0.1:0", "--until-eof", "--log-format", "json"}, more...)
	c := launch(t, out, exec.Command(os.Args[0], args...))
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.text())
		}
	})
	eventually(t, "the start", func() bool {
		for line := range strings.Lines(c.text()) {
			var said struct{ Msg, Admin string }
			if json.Unmarshal([]byte(line), &said) == nil && said.Msg == "started" {
				c.admin = said.Admin
			}
		}
		return c.admin != "" || c.isEnded()
	})
	return c
}

func launch(t testing.TB, out io.Writer, cmd *exec.Cmd) *child {
	t.Helper()
	c := &child{t: t, cmd: cmd, ended: make(chan struct{})}
	cmd.Stdout = out
	if cmd.Stderr == nil {
		cmd.Stderr = c
	}
	stdin, err := cmd.StdinPipe()
	must(t, err)
	if c.stdin = stdin; cmd.Start() != nil {
		t.Fatal("cannot start ", cmd.Args)
	}
	go func() {
		cmd.Wait()
		close(c.ended)
	}()
	t.Cleanup(c.kill)
	return c
}

func (c *child) isEnded() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// kill ends the process with kill -9.
func (c *child) kill() {
	c.cmd.Process.Kill()
	<-c.ended
	c.stdin.Close()
}

// exit waits until the process ends and returns its exit code.
func (c *child) exit() int {
	c.t.Helper()
	eventually(c.t, "the end of "+c.cmd.Args[0], c.isEnded)
	return c.cmd.ProcessState.ExitCode()
}

// stop ends the process as its parent's end does.
func (c *child) stop() int {
	c.t.Helper()
	c.stdin.Close()
	return c.exit()
}

// stats returns the relay's counters.
func (c *child) stats() (s stats) {
	c.t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience()}
	answer, err := client.Get("http://" + c.admin + "/relay/stats")
	if err != nil {
		c.t.Fatal(err, c.text())
	}
	defer answer.Body.Close()
	must(c.t, json.NewDecoder(answer.Body).Decode(&s))
	return s
}

// verb runs honed-relay dead to its end.
func verb(t testing.TB, data string, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	args = append(append([]string{"dead"}, args...), "--data", data)
	if code := run(soon(t), args, &out, &errs); code != commandline.OK {
		t.Fatalf("%v: %d %s", args, code, &errs)
	}
	return out.String()
}

// received is what a destination has got, in all lives of its reader.
type received struct {
	mu       sync.Mutex
	last     map[string]uint64 // sequence number, by client
	repeated int
	skipped  []string
	part     []byte // of a line
}

func newReceived() *received { return &received{last: map[string]uint64{}} }

// begin forgets a line of the life before that was cut off.
func (r *received) begin() *received {
	r.part = nil
	return r
}

// Write takes lines of JSON.
func (r *received) Write(text []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.part = append(r.part, text...)
	for {
		one, rest, found := bytes.Cut(r.part, []byte("\n"))
		if !found {
			r.part = append(r.part[:0], one...)
			return len(text), nil
		}
		r.part = rest
		var l line
		if err := json.Unmarshal(one, &l); err != nil {
			r.skipped = append(r.skipped, err.Error())
		}
		r.take(&l)
	}
}

// take checks that nothing of a client is left out; mu is held.
func (r *received) take(l *line) {
	switch last := r.last[l.Client]; {
	case l.Seq <= last:
		r.repeated++
	case l.Seq > last+1:
		r.skipped = append(r.skipped, fmt.Sprintf("%s: %d comes after %d", l.Client, l.Seq, last))
	}
	r.last[l.Client] = max(r.last[l.Client], l.Seq)
}

func (r *received) count() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, last := range r.last {
		n += int(last)
	}
	return n
}

// ordered checks that each client's messages are there from 1 to n in order, once the repeated ones are left
// out by their keys, and returns how many were repeated.
func ordered(t testing.TB, all []line, clients, n int) (repeated int) {
	t.Helper()
	seen, next := map[string]bool{}, map[string]int{}
	for _, l := range all {
		if seen[l.Key] {
			repeated++
			continue
		}
		seen[l.Key] = true
		next[l.Client]++
		if want := numbered(next[l.Client]); string(l.Data) != want {
			t.Fatalf("%s: %s came instead of %s", l.Client, l.Data, want)
		}
	}
	if len(next) != clients {
		t.Errorf("%d clients; want %d", len(next), clients)
	}
	for client, got := range next {
		if got != n {
			t.Errorf("%s: %d messages; want %d", client, got, n)
		}
	}
	return repeated
}

// binary builds honed, or finds it in the build cache: there go run keeps what it has linked, unlike go build, which
// takes 1.6 s of CPU each time.
func binary(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "honed")
	out, err := exec.Command("go", "run", "-exec", "cp", "github.com/hone-go/hone/gateway/cmd/honed", path).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// startHoned starts a gateway process and waits until it serves.
func startHoned(t testing.TB, binary, addr, data string, more ...string) *child {
	t.Helper()
	c := launch(t, nil, exec.Command(binary, append([]string{"--data", data, "--listen", addr, "--admin", "off", "--until-eof"}, more...)...))
	eventually(t, "the start of honed", func() bool {
		nc, err := net.Dial("tcp", addr)
		if err == nil {
			nc.Close()
		}
		return err == nil || c.isEnded()
	})
	return c
}

func writeFile(t testing.TB, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

func mustRead(t testing.TB, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return text
}

// random returns text that cannot be compressed much.
func random(n int) string {
	text := make([]byte, n)
	source := rand.NewChaCha8([32]byte{})
	for i := range text {
		text[i] = byte('!' + source.Uint64()%90)
	}
	return string(text)
}

// playReader is a gateway.Reader in a process of its own. It prints each message before it acknowledges it.
func playReader(addr string) error {
	r := &gateway.Reader{Addrs: []string{addr}, Name: "go", Start: gateway.FromFirst}
	var out []byte
	for {
		b, err := r.Next(context.Background())
		if err != nil {
			return err
		}
		out = out[:0]
		for _, m := range b.Messages {
			out = fmt.Appendf(out, "{\"client\":%q,\"seq\":%d}\n", m.Client, m.Seq)
		}
		if _, err := os.Stdout.Write(out); err != nil {
			return err
		}
		if err := r.Ack(b.Position); err != nil {
			return err
		}
	}
}
