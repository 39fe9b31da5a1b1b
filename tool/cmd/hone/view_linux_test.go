package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/view"
)

// desk is a terminal with a program that runs on it.
type desk struct {
	t             *testing.T
	master, slave *os.File
	before        syscall.Termios
	cmd           *exec.Cmd

	mu    sync.Mutex
	raw   []byte
	paper *paper
	wrote chan struct{} // something was written since it was looked at
	read  chan struct{} // closed when there is nothing more to read
}

// ioctl asks a terminal something, or tells it.
func ioctl(fd uintptr, request uintptr, value unsafe.Pointer) bool {
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, request, uintptr(value))
	return errno == 0
}

// sitDown opens a terminal.
func sitDown(t *testing.T, width, height int) *desk {
	t.Helper()
	master, slave, err := openTerminal()
	if err != nil {
		if testrun.All() {
			t.Fatalf("no terminal can be opened: %v; mount devpts, or give this user /dev/ptmx", err)
		}
		t.Skipf("no terminal can be opened: %v; mount devpts, or give this user /dev/ptmx", err)
	}
	d := &desk{t: t, master: master, slave: slave, paper: newPaper(width, height), wrote: make(chan struct{}, 1), read: make(chan struct{})}
	d.size(width, height)
	d.before = d.termios()
	go d.look()
	t.Cleanup(d.leave)
	return d
}

// openTerminal opens both ends of a new terminal.
func openTerminal() (master, slave *os.File, err error) {
	if master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		return nil, nil, err
	}
	var number, locked int32
	done := false
	conn, err := master.SyscallConn()
	if err == nil {
		err = conn.Control(func(fd uintptr) {
			done = ioctl(fd, syscall.TIOCSPTLCK, unsafe.Pointer(&locked)) && ioctl(fd, syscall.TIOCGPTN, unsafe.Pointer(&number))
		})
	}
	if err == nil && !done {
		err = errors.New("/dev/ptmx makes no terminals")
	}
	if err == nil {
		slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err != nil {
		master.Close()
	}
	return master, slave, err
}

// ask is an ioctl that must succeed.
func (d *desk) ask(file *os.File, request uintptr, value unsafe.Pointer) {
	d.t.Helper()
	conn, err := file.SyscallConn()
	if err != nil {
		d.t.Fatal(err)
	}
	conn.Control(func(fd uintptr) {
		if !ioctl(fd, request, value) {
			d.t.Fatalf("ioctl %#x fails", request)
		}
	})
}

// size tells the terminal's size; whoever draws on it gets SIGWINCH.
func (d *desk) size(width, height int) {
	d.t.Helper()
	size := [4]uint16{uint16(height), uint16(width)}
	d.ask(d.master, syscall.TIOCSWINSZ, unsafe.Pointer(&size))
}

func (d *desk) termios() (now syscall.Termios) {
	d.t.Helper()
	d.ask(d.slave, syscall.TCGETS, unsafe.Pointer(&now))
	return now
}

// look reads what is written until the terminal is closed.
func (d *desk) look() {
	defer close(d.read)
	buf := make([]byte, 1<<16)
	for {
		n, err := d.master.Read(buf)
		d.mu.Lock()
		d.raw = append(d.raw, buf[:n]...)
		d.paper.write(string(buf[:n]))
		d.mu.Unlock()
		select {
		case d.wrote <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

func (d *desk) leave() {
	if d.cmd != nil && d.cmd.ProcessState == nil {
		d.cmd.Process.Kill()
		d.cmd.Wait()
	}
	d.slave.Close()
	d.master.Close()
	<-d.read
}

// start starts a program in a session of its own. Change changes the command first.
func (d *desk) start(change func(*exec.Cmd), args ...string) {
	d.t.Helper()
	d.cmd = exec.Command(args[0], args[1:]...)
	d.cmd.Stdin, d.cmd.Stdout, d.cmd.Stderr = d.slave, d.slave, d.slave
	for _, setting := range os.Environ() {
		if !strings.HasPrefix(setting, "NO_COLOR=") {
			d.cmd.Env = append(d.cmd.Env, setting)
		}
	}
	d.cmd.Env = append(d.cmd.Env, "TERM=xterm-256color", "GORACE="+quickExit, "HOME="+d.t.TempDir())
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Pdeathsig: syscall.SIGKILL}
	if change != nil {
		change(d.cmd)
	}
	d.cmd.SysProcAttr.Ctty = 2
	if d.cmd.Stderr != d.slave {
		d.cmd.SysProcAttr.Ctty = 0
	}
	if err := d.cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) typed(keys string) {
	d.t.Helper()
	if _, err := d.master.WriteString(keys); err != nil {
		d.t.Fatal(err)
	}
}

// await waits until what the terminal shows is as it should be.
func (d *desk) await(what string, ok func(shown, raw string) bool) {
	d.t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		shown, raw := d.shown()
		if ok(shown, raw) {
			return
		}
		select {
		case <-d.wrote:
		case <-limit.C:
			d.t.Fatalf("waiting for %s, the terminal shows\n%s\n\nof %q", what, shown, raw)
		}
	}
}

func (d *desk) shown() (shown, raw string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.paper.text(), string(d.raw)
}

// has is for await: all of these words are shown.
func has(words ...string) func(string, string) bool {
	return func(shown, _ string) bool {
		for _, w := range words {
			if !strings.Contains(shown, w) {
				return false
			}
		}
		return true
	}
}

// ended waits for the program's end, holds the terminal's state to what it was, and
// returns the exit code, and all that was written.
func (d *desk) ended() (code int, shown, raw string) {
	d.t.Helper()
	impatience := time.AfterFunc(patience, func() { d.cmd.Process.Kill() })
	d.cmd.Wait() // its exit code says all
	if !impatience.Stop() {
		shown, raw = d.shown()
		d.t.Fatalf("it does not end; the terminal shows\n%s\n\nof %q", shown, raw)
	}
	if now := d.termios(); now != d.before {
		d.t.Errorf("the terminal is left as %+v, it was %+v", now, d.before)
	}
	d.slave.Close()
	<-d.read
	shown, raw = d.shown()
	if hidden, seen := strings.LastIndex(raw, "\x1b[?25l"), strings.LastIndex(raw, "\x1b[?25h"); hidden > seen {
		d.t.Errorf("the cursor stays hidden: %q", raw)
	}
	if len(d.paper.unknown) > 0 {
		d.t.Errorf("sequences that not every terminal knows: %q", d.paper.unknown)
	}
	return d.cmd.ProcessState.ExitCode(), shown, raw
}

// echoServer answers until the test ends, or its stop is called.
func echoServer(t *testing.T) (addr string, stop func()) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &framed.Server{Handler: framed.HandlerFunc(func(_ framed.Call, dst, req []byte) ([]byte, error) { return append(dst, req...), nil })}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	stop = sync.OnceFunc(func() {
		server.Close()
		if err := <-served; !errors.Is(err, framed.ErrServerClosed) {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return ln.Addr().String(), stop
}

// gently are the arguments of a load that goes on until it is ended, and leaves the
// machine to others.
func gently(addr string, more ...string) []string {
	return append([]string{"hone", "load", addr, "-c", "2", "--rate", "100", "-d", "10m", "--warmup", "10ms"}, more...)
}

// labels are how lines of load's view begin.
var labels = regexp.MustCompile(`^(hone load |load  |connecting |warming up |measuring  |rate  |p50  |p99  |errors  |generator  |so far  |goal  |press q or Ctrl-C |$)`)

// onlyView is for await: the whole view is there, and nothing else.
func onlyView(shown, _ string) bool {
	if !strings.Contains(shown, "measuring") || !strings.Contains(shown, "q or Ctrl-C") {
		return false
	}
	for line := range strings.Lines(shown) {
		if !labels.MatchString(strings.TrimSuffix(line, "\n")) {
			return false
		}
	}
	return strings.Count(shown, "rate  ") == 1
}

func TestTerminalResized(t *testing.T) {
	t.Parallel() // it waits more than it works
	addr, _ := echoServer(t)
	d := sitDown(t, 80, 24)
	d.start(nil, gently(addr, "--expect", "p99<10s")...)
	d.await("the view", onlyView)
	for _, size := range [][2]int{{20, 15}, {200, 50}, {60, 13}, {80, 24}} {
		d.mu.Lock()
		d.paper.next = size
		d.mu.Unlock()
		d.size(size[0], size[1])
		d.await(fmt.Sprintf("the view in %v", size), func(shown, raw string) bool {
			return d.paperIs(size) && onlyView(shown, raw)
		})
	}
	d.typed("q")
	code, shown, raw := d.ended()
	if code != exit.Interrupted || !strings.HasPrefix(shown, "INVALID: interrupted") || strings.Contains(shown, "q or Ctrl-C") {
		t.Errorf("exit code %d, and this is left:\n%s", code, shown)
	}
	if !regexp.MustCompile("\x1b\\[1m|\x1b\\[36m").MatchString(raw) {
		t.Errorf("no colours in %q", raw)
	}
}

func (d *desk) paperIs(size [2]int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.paper.width == size[0] && d.paper.height == size[1]
}

// TestTerminalInterrupted ends a load in several ways; the terminal is as before
// after each, and the result stands where it should.
func TestTerminalInterrupted(t *testing.T) {
	t.Parallel() // it waits more than it works

	if signal.Ignored(syscall.SIGHUP) { // under nohup, and what this process starts would ignore it too
		heard := make(chan os.Signal, 1)
		signal.Notify(heard, syscall.SIGHUP)
		t.Cleanup(func() { signal.Stop(heard) })
	}
	for _, c := range []struct {
		name string
		end  func(*desk)
		code int
	}{
		{"Ctrl-C", func(d *desk) { d.typed("\x03") }, exit.Interrupted},
		{"Ctrl-C twice", func(d *desk) { d.typed("\x03\x03") }, exit.Interrupted},
		{"SIGTERM", func(d *desk) { d.cmd.Process.Signal(syscall.SIGTERM) }, exit.Interrupted},
		{"SIGQUIT", func(d *desk) { d.cmd.Process.Signal(syscall.SIGQUIT) }, exit.Usage}, // the Go runtime's own
		{"SIGHUP", func(d *desk) { d.cmd.Process.Signal(syscall.SIGHUP) }, exit.Interrupted},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			addr, _ := echoServer(t)
			d := sitDown(t, 80, 24)
			result := filepath.Join(t.TempDir(), "result")
			out, err := os.Create(result)
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			d.start(func(cmd *exec.Cmd) { cmd.Stdout = out }, gently(addr)...)
			d.await("the view", onlyView)
			if now := d.termios(); now.Lflag&(syscall.ICANON|syscall.ECHO) != 0 {
				t.Error("keys are echoed into the view")
			}
			c.end(d)
			code, shown, _ := d.ended()
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			if c.code == exit.Interrupted && shown != "" {
				t.Errorf("the view leaves something behind: %q", shown)
			}
			written, err := os.ReadFile(result)
			if err != nil {
				t.Fatal(err)
			}
			if c.code == exit.Interrupted != strings.HasPrefix(string(written), "INVALID: interrupted") || strings.Contains(string(written), "\x1b") {
				t.Errorf("standard output has %q", written)
			}
		})
	}
}

// TestTerminalServerGone: the terminal is as before when the command fails, too.
func TestTerminalServerGone(t *testing.T) {
	t.Parallel() // it waits more than it works
	addr, stop := echoServer(t)
	d := sitDown(t, 80, 24)
	d.start(nil, gently(addr)...)
	d.await("the view", onlyView)
	stop()
	code, shown, _ := d.ended()
	if code != exit.Failed || !strings.Contains(shown, "hone: load: ") || strings.Contains(shown, "q or Ctrl-C") {
		t.Errorf("exit code %d, and this is left:\n%s", code, shown)
	}
}

// TestTerminalPlain: without colours, without a view, without a terminal.
func TestTerminalPlain(t *testing.T) {
	t.Parallel() // it waits more than it works
	anyColour := regexp.MustCompile("\x1b\\[[0-9;:]*m")
	with := func(setting string) func(*exec.Cmd) {
		return func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, setting) }
	}
	lines := regexp.MustCompile(`(?m)^measuring +\d+s  2 conns  .*errors\r?$`).MatchString
	inLines := func(_, raw string) bool { return lines(raw) }
	t.Run("NO_COLOR", func(t *testing.T) {
		t.Parallel()
		raw := plainly(t, with("NO_COLOR=1"), onlyView)
		if seen := anyColour.FindString(raw); seen != "" {
			t.Errorf("%q in %q", seen, raw)
		}
	})
	t.Run("dumb", func(t *testing.T) {
		t.Parallel()
		if raw := plainly(t, with("TERM=dumb"), inLines); strings.Contains(raw, "\x1b") {
			t.Errorf("an escape sequence in %q", raw)
		}
	})
	t.Run("--plain", func(t *testing.T) {
		t.Parallel()
		if raw := plainly(t, nil, inLines, "--plain"); strings.Contains(raw, "\x1b") {
			t.Errorf("an escape sequence in %q", raw)
		}
	})
	t.Run("input is no terminal", func(t *testing.T) {
		t.Parallel()
		plainly(t, func(cmd *exec.Cmd) { cmd.Stdin = nil }, onlyView)
	})
}

// plainly runs a load on a terminal until it shows what it should, and ends it.
func plainly(t *testing.T, change func(*exec.Cmd), ok func(string, string) bool, flags ...string) string {
	addr, _ := echoServer(t)
	d := sitDown(t, 80, 24)
	d.start(change, gently(addr, flags...)...)
	d.await("the load", ok)
	d.typed("\x03")
	code, _, raw := d.ended()
	if code != exit.Interrupted {
		t.Errorf("exit code %d", code)
	}
	return raw
}

// TestTerminalPlainSteps: Go benchmarks have no view, but a line that changes.
func TestTerminalPlainSteps(t *testing.T) {
	t.Parallel() // it waits more than it works
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":    "module example.org/m\n\ngo 1.26\n",
		"m_test.go": "package m\n\nimport \"testing\"\n\nfunc BenchmarkNothing(b *testing.B) {\n\tfor b.Loop() {\n\t}\n}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	d := sitDown(t, 80, 24)
	built := func(cmd *exec.Cmd) {
		cmd.Dir, cmd.Env = dir, append(cmd.Env, "GOCACHE="+strings.TrimSpace(string(cache)))
	}
	d.start(built, "hone", "bench", "--go-test", ".", "-n", "1", "--for", "1ms", "--most-others", "100%", "--discard", "--plain")
	code, shown, raw := d.ended()
	if code != exit.OK || !regexp.MustCompile(`(?m)^sample 1 of 1: `).MatchString(shown) {
		t.Errorf("exit code %d, and this is left:\n%s", code, shown)
	}
	if strings.Contains(raw, "\x1b") {
		t.Errorf("an escape sequence in %q", raw)
	}
}

// TestTerminalErrorRedirected: nothing is drawn where nobody looks.
func TestTerminalErrorRedirected(t *testing.T) {
	t.Parallel() // it waits more than it works
	addr, _ := echoServer(t)
	d := sitDown(t, 80, 24)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	defer write.Close()
	d.start(func(cmd *exec.Cmd) { cmd.Stderr = write }, "hone", "load", addr, "-c", "2", "--rate", "100", "-d", "1100ms", "--warmup", "10ms", "--progress")
	write.Close()
	read.SetReadDeadline(time.Now().Add(patience))
	said := make([]byte, 1<<16)
	n, err := read.Read(said)
	if err != nil || !regexp.MustCompile(`^(measuring|connecting|warming up) +\d+s  .* errors\n`).Match(said[:n]) {
		t.Errorf("standard error has %q, %v", said[:n], err)
	}
	code, shown, raw := d.ended()
	if code != exit.OK && code != exit.Invalid || strings.Contains(raw, "\x1b") || !strings.HasPrefix(strings.TrimPrefix(shown, "IN"), "VALID: ") {
		t.Errorf("exit code %d, the terminal has %q", code, raw)
	}
}

// TestTerminalStopped stops a load from a shell with Ctrl-Z, and lets it go on.
func TestTerminalStopped(t *testing.T) {
	t.Parallel() // it waits more than it works
	if _, err := exec.LookPath("bash"); err != nil {
		if testrun.All() {
			t.Fatal("there is no bash; install bash, or run make deps")
		}
		t.Skip("there is no bash; install bash, or run make deps")
	}
	addr, _ := echoServer(t)
	d := sitDown(t, 100, 40)
	d.start(nil, "bash", "--norc", "--noprofile", "--noediting", "-i")
	d.typed("PS1='ready: '\n")
	d.await("a prompt", has("ready: "))
	d.typed(strings.Join(gently(addr), " ") + "\n")
	d.await("the view", has("measuring", "q or Ctrl-C"))
	d.typed("\x1a")
	d.await("the shell, without the view", func(shown, raw string) bool {
		return has("Stopped")(shown, raw) && !has("q or Ctrl-C")(shown, raw)
	})
	d.typed("stty -a | grep -o ' icanon' && bg\n")
	d.await("the job in the background", func(shown, raw string) bool {
		return strings.Count(shown, " icanon") == 2 && has("]+ hone load", " &")(shown, raw)
	})
	d.typed("echo still; jobs -r\n")
	d.await("the job to run without a view", func(shown, raw string) bool {
		return strings.Count(shown, "still") == 2 && has("Running")(shown, raw) && !has("q or Ctrl-C")(shown, raw)
	})
	d.typed("fg\n")
	d.await("the view again", has("measuring", "q or Ctrl-C"))
	d.typed("q")
	d.await("the result", has("INVALID: interrupted"))
	d.typed("echo code $?\n")
	d.await("the exit code", has("code 130"))
	d.typed("exit\n")
	d.ended()
}

// TestTerminalCannotStop: what no shell has started cannot be stopped, and goes on.
func TestTerminalCannotStop(t *testing.T) {
	t.Parallel() // it waits more than it works
	addr, _ := echoServer(t)
	d := sitDown(t, 80, 24)
	d.start(nil, gently(addr)...)
	d.await("the view", onlyView)
	d.typed("\x1a")
	d.await("the view a second time", func(shown, raw string) bool {
		return strings.Count(raw, "\x1b[?25l") == 2 && onlyView(shown, raw)
	})
	d.typed("q")
	if code, shown, _ := d.ended(); code != exit.Interrupted || !strings.Contains(shown, "INVALID: interrupted") {
		t.Errorf("exit code %d, and this is left:\n%s", code, shown)
	}
}

// TestTerminalResult: the result takes the view's place.
func TestTerminalResult(t *testing.T) {
	t.Parallel() // it waits more than it works
	addr, _ := echoServer(t)
	d := sitDown(t, 80, 40)
	d.start(nil, gently(addr, "-d", "2s")...)
	d.await("the view", onlyView)
	code, shown, _ := d.ended()
	if code != exit.OK && code != exit.Invalid || !strings.HasPrefix(strings.TrimPrefix(shown, "IN"), "VALID: ") || strings.Contains(shown, "q or Ctrl-C") {
		t.Errorf("exit code %d, and this is left:\n%s", code, shown)
	}
}

// TestTerminalKnee leaves the result and a line about the search.
func TestTerminalKnee(t *testing.T) {
	t.Parallel() // it waits more than it works
	addr, _ := echoServer(t)
	d := sitDown(t, 100, 40)
	d.start(nil, "hone", "knee", addr, "-c", "2", "--expect", "p99<10s", "--from", "50", "--for", "1s", "--warmup", "10ms")
	d.await("a step", has("hone knee", "   1 ", "req/s  short", "bracket", "q or Ctrl-C"))
	d.typed("q")
	code, shown, _ := d.ended()
	if code != exit.Interrupted || !regexp.MustCompile(`^hone: knee: some 20 trials, .*\nhone: knee: \d+ trials? in \d+ s\nINVALID: `).MatchString(shown) {
		t.Errorf("exit code %d, and this is left:\n%s", code, shown)
	}
}

// TestTerminalBench does the same for samples.
func TestTerminalBench(t *testing.T) {
	t.Parallel() // it waits more than it works
	addr := freePort(t)
	d := sitDown(t, 100, 40)
	d.start(nil, "hone", "bench", "--cmd", "exec hone serve --addr "+addr+" --admin 127.0.0.1:0", "--target", addr, "-c", "2", "--rate", "100",
		"-n", "3", "-d", "10m", "--warmup", "10ms", "--most-others", "100%", "--discard")
	d.await("the view", has("hone bench "+addr, "sample ", " 1 of 3", "now        the server, measuring", "no sample yet", "q or Ctrl-C"))
	d.typed("q")
	code, shown, _ := d.ended()
	if code != exit.Interrupted || !regexp.MustCompile(`^hone: bench: 0 samples in \d+ s\nhone: bench: interrupted$`).MatchString(shown) {
		t.Errorf("exit code %d, and this is left:\n%s", code, shown)
	}
}

// freePort is an address at which nobody listens.
func freePort(t *testing.T) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// TestTerminalDemo shows a line, in the place of one for every step.
func TestTerminalDemo(t *testing.T) {
	d := sitDown(t, 100, 10)
	d.start(nil, "hone", "demo", "--for", "1s")
	d.await("the line", func(shown, _ string) bool {
		return strings.HasPrefix(shown, "hone demo") && strings.Count(shown, "\n") == 0 && strings.Contains(shown, "1 of ")
	})
	d.typed("\x03")
	if code, shown, _ := d.ended(); code != exit.Interrupted || !strings.HasPrefix(shown, "hone: demo: interrupted") {
		t.Errorf("exit code %d, and this is left:\n%s", code, shown)
	}
}

// TestScreenOfPanic: a deferred close restores the terminal when a command panics.
func TestScreenOfPanic(t *testing.T) {
	t.Setenv("TERM", "xterm-256color") // whatever the tests run in
	d := sitDown(t, 80, 24)
	func() {
		defer func() { recover() }()
		shown := view.NewLoad(view.How{To: d.slave}, "127.0.0.1:7000", "", load.Plan{For: time.Minute}, nil)
		defer shown.End()
		d.await("the view", has("rate "))
		panic("for the test")
	}()
	d.await("nothing", func(shown, raw string) bool { return shown == "" && strings.Contains(raw, "\x1b[?25h") })
}
