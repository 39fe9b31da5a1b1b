package handover

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// part returns what the test binary plays as a child process. It says what it does on standard output; at the step that
// is named in HANDOVER_HALT it waits for a line on standard input.
func part(name string) func() {
	return map[string]func(){
		"server":   playServer,
		"stranger": playStranger,
		"poor":     playPoor,
	}[name]
}

const patience = time.Minute // of tests, for a child

func tell(words ...any) { fmt.Println(words...) }

// halt tells that a step is reached.
func halt(step string) {
	tell(step)
	if os.Getenv("HANDOVER_HALT") == step {
		bufio.NewReader(os.Stdin).ReadString('\n')
	}
}

func playSockets() *Sockets {
	bare := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
			return slog.Attr{}
		}
		return a
	}
	s := &Sockets{Path: os.Getenv("HANDOVER_PATH"), Logger: slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: bare}))}
	s.patience, _ = time.ParseDuration(os.Getenv("HANDOVER_PATIENCE"))
	return s
}

// playServer serves HTTP on a port and on a unix socket until it is replaced; then it drains.
func playServer() {
	s := playSockets()
	taken, err := s.Take(context.Background())
	if err != nil {
		tell("refused", err)
		return
	}
	halt("taken " + fmt.Sprint(taken))
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		for range 3 {
			fmt.Fprintln(w, os.Getpid(), n)
			http.NewResponseController(w).Flush()
		}
	})}
	var all []net.Listener
	for _, at := range []string{"127.0.0.1:0", "unix:" + s.Path + ".public"} {
		ln, err := s.Listen(at, func() (net.Listener, error) {
			if path, is := strings.CutPrefix(at, "unix:"); is {
				return net.Listen("unix", path)
			}
			return net.Listen("tcp", at)
		})
		if err != nil {
			tell("refused", err)
			return
		}
		all = append(all, ln)
	}
	if os.Getenv("HANDOVER_HALT") == "mute" {
		halt("mute") // it does not accept
	}
	for _, ln := range all {
		go srv.Serve(ln)
	}
	tell("at", all[0].Addr())
	halt("accepting")
	if err := s.Ready(context.Background()); err != nil {
		tell("refused", err)
	} else {
		halt("ready")
		go func() {
			io.Copy(io.Discard, os.Stdin)
			tell("stdin ended")
			os.Exit(3) // the test has died
		}()
		<-s.Yielded()
		tell("yielded")
	}
	s.Close()
	for _, ln := range all {
		ln.Close()
	}
	<-time.After(100 * time.Millisecond) // what was just accepted sends its request
	srv.Shutdown(context.Background())
	tell("drained")
}

// playStranger asks for the sockets, whatever their folder is, says what it gets and ends.
func playStranger() {
	s := &Sockets{Path: os.Getenv("HANDOVER_PATH")}
	err := s.ask(context.Background())
	tell("got", len(s.given), err)
}

// playPoor takes sockets with too few descriptors for them.
func playPoor() {
	open, _ := os.ReadDir("/proc/self/fd")
	syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: uint64(len(open) + 5), Max: 1 << 12})
	_, err := playSockets().Take(context.Background())
	tell("got", err)
}

// child is a part that is played.
type child struct {
	t    *testing.T
	cmd  *exec.Cmd
	out  *bufio.Reader
	in   io.WriteCloser
	said []string
}

// start starts a part with more environment.
func start(t *testing.T, part, path string, env ...string) *child {
	t.Helper()
	c := &child{t: t, cmd: exec.Command(os.Args[0])}
	return c.start(part, path, env...)
}

func (c *child) start(part, path string, env ...string) *child {
	c.t.Helper()
	c.cmd.Env = append(os.Environ(), append([]string{"HANDOVER_PART=" + part, "HANDOVER_PATH=" + path, "GORACE=atexit_sleep_ms=0"}, env...)...)
	c.cmd.Stderr = os.Stderr
	in, err := c.cmd.StdinPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.in, c.out = in, bufio.NewReader(out)
	c.t.Cleanup(func() { c.kill() })
	return c
}

// until reads what the child says until a line begins with words, and returns the rest of it.
func (c *child) until(words string) string {
	c.t.Helper()
	limit := time.AfterFunc(patience, func() { c.cmd.Process.Kill() })
	defer limit.Stop()
	for {
		line, err := c.out.ReadString('\n')
		if err != nil {
			c.t.Fatalf("it ended before %q: %q", words, c.said)
		}
		c.said = append(c.said, strings.TrimSpace(line))
		if rest, is := strings.CutPrefix(line, words); is {
			return strings.TrimSpace(rest)
		}
	}
}

// untilRefused waits until it has refused another one, and returns why.
func (c *child) untilRefused(other *child) string {
	c.t.Helper()
	return c.until(fmt.Sprintf("msg=\"another process cannot replace this one\" pid=%d why=", other.cmd.Process.Pid))
}

// goOn lets it go on from where it halts.
func (c *child) goOn() { io.WriteString(c.in, "\n") }

// kill ends it at once.
func (c *child) kill() {
	c.cmd.Process.Kill()
	c.cmd.Wait()
	c.in.Close()
}
