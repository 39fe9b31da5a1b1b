package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/tool/exit"
)

// desk is a terminal with a program that runs on it.
type desk struct {
	t             *testing.T
	master, slave *os.File
	cmd           *exec.Cmd

	mu    sync.Mutex
	raw   []byte
	wrote chan struct{} // something was written since it was looked at
	read  chan struct{} // closed when there is nothing more to read
}

// sitDown opens a terminal.
func sitDown(t *testing.T, width, height int) *desk {
	t.Helper()
	d := &desk{t: t, wrote: make(chan struct{}, 1), read: make(chan struct{})}
	err := d.open()
	if err != nil && !testrun.All() {
		t.Skipf("no terminal can be opened: %v; mount devpts, or give this user /dev/ptmx", err)
	} else if err != nil {
		t.Fatalf("no terminal can be opened: %v; mount devpts, or give this user /dev/ptmx", err)
	}
	d.size(width, height)
	go d.look()
	t.Cleanup(d.leave)
	return d
}

// open opens both ends.
func (d *desk) open() (err error) {
	if d.master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		return err
	}
	var number, locked int32
	if !d.control(syscall.TIOCSPTLCK, unsafe.Pointer(&locked)) || !d.control(syscall.TIOCGPTN, unsafe.Pointer(&number)) {
		return errors.New("/dev/ptmx makes no terminals")
	}
	d.slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	return err
}

// control is an ioctl on the master, which stays non-blocking.
func (d *desk) control(request uintptr, value unsafe.Pointer) (ok bool) {
	conn, err := d.master.SyscallConn()
	if err != nil {
		return false
	}
	conn.Control(func(fd uintptr) {
		_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, request, uintptr(value))
		ok = errno == 0
	})
	return ok
}

func (d *desk) size(width, height int) {
	d.t.Helper()
	size := [4]uint16{uint16(height), uint16(width)}
	if !d.control(syscall.TIOCSWINSZ, unsafe.Pointer(&size)) {
		d.t.Fatal("the terminal has no size")
	}
}

// look reads what is written until the terminal is closed.
func (d *desk) look() {
	defer close(d.read)
	buf := make([]byte, 1<<16)
	for {
		n, err := d.master.Read(buf)
		d.mu.Lock()
		d.raw = append(d.raw, buf[:n]...)
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
	d.cmd.Env = slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "NO_COLOR=") })
	d.cmd.Env = append(d.cmd.Env, "TERM=xterm-256color", "GORACE="+quickExit, "HOME="+d.t.TempDir())
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 2, Pdeathsig: syscall.SIGKILL}
	if change != nil {
		change(d.cmd)
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

// await waits until the lines of the newest block, and what was written behind it, are as they should be.
func (d *desk) await(what string, ok func(block []string, behind string) bool) {
	d.t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		block, behind, raw := d.shown()
		if ok(block, behind) {
			return
		}
		select {
		case <-d.wrote:
		case <-limit.C:
			d.t.Fatalf("waiting for %s, the terminal shows\n%s\n\nand behind it %q, of %q", what, strings.Join(block, "\n"), behind, raw)
		}
	}
}

var sequence = regexp.MustCompile("\x1b\\[[0-9;]*[A-Za-z]")

// shown returns the lines of the newest block, and what was written behind it. A block, and its removal,
// end by clearing what is below.
func (d *desk) shown() (block []string, behind, raw string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	raw = string(d.raw)
	blocks := strings.Split(raw, "\x1b[J")
	behind = blocks[len(blocks)-1]
	if len(blocks) > 1 {
		_, text, _ := strings.Cut(blocks[len(blocks)-2], "\r")
		text = strings.ReplaceAll(text, "\r", "") // the terminal adds one
		block = strings.Split(sequence.ReplaceAllString(text, ""), "\n")
	}
	return block, behind, raw
}

// has is for await: the block has all of these words.
func has(words ...string) func([]string, string) bool {
	return func(block []string, _ string) bool {
		for _, w := range words {
			if !strings.Contains(strings.Join(block, "\n"), w) {
				return false
			}
		}
		return true
	}
}

// follows is for await: these words were written behind a block.
func follows(words ...string) func([]string, string) bool {
	return func(_ []string, behind string) bool { return has(words...)([]string{behind}, "") }
}

// ended waits for the program's end, and returns its exit code and what it leaves on the terminal.
func (d *desk) ended() (code int, left, raw string) {
	d.t.Helper()
	code = d.waited()
	d.slave.Close()
	d.master.SetReadDeadline(time.Now().Add(patience))
	<-d.read
	block, left, raw := d.shown()
	if len(block) > 1 || len(block) == 1 && block[0] != "" {
		d.t.Errorf("a block stays: %q", block)
	}
	for _, s := range sequence.FindAllString(raw, -1) {
		if !strings.ContainsAny(s[len(s)-1:], "AJKm") {
			d.t.Errorf("the sequence %q, of %q", s, raw)
		}
	}
	return code, left, raw
}

// waited waits for the program's end.
func (d *desk) waited() (code int) {
	d.t.Helper()
	impatience := time.AfterFunc(patience, func() { d.cmd.Process.Kill() })
	d.cmd.Wait() // its exit code says all
	if !impatience.Stop() {
		_, _, raw := d.shown()
		d.t.Fatalf("it does not end: %q", raw)
	}
	return d.cmd.ProcessState.ExitCode()
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

// whole is for await: a load's whole block.
func whole(block []string, behind string) bool {
	return len(block) == 6 && has("left, measuring", "\nrate  ", "\np50, p99  ", "\nerrors  ", "\ngenerator  ", "\nso far  ")(block, "")
}

// TestTerminalResized checks that the block follows the terminal's size.
func TestTerminalResized(t *testing.T) {
	t.Parallel() // it waits more than it works
	addr, _ := echoServer(t)
	d := sitDown(t, 80, 24)
	d.start(nil, gently(addr)...)
	d.await("the block", whole)
	for _, size := range [][2]int{{20, 15}, {200, 50}, {60, 4}, {80, 24}} {
		d.size(size[0], size[1])
		d.await(fmt.Sprintf("the block in %v", size), func(block []string, _ string) bool {
			widest := 0
			for _, l := range block {
				widest = max(widest, utf8.RuneCountInString(l))
			}
			return len(block) == min(size[1]-1, 6) && widest < size[0] && widest > min(size[0], 80)/2
		})
	}
	d.typed("\x03")
	code, left, raw := d.ended()
	if code != exit.Interrupted || !strings.HasPrefix(left, "INVALID: interrupted") || !strings.Contains(raw, "\x1b[36m") {
		t.Errorf("exit code %d, and this is left:\n%s\nof %q", code, left, raw)
	}
}

// TestTerminalEnds ends a load in several ways: nothing is left on the terminal, and the result stands
// where it should.
func TestTerminalEnds(t *testing.T) {
	t.Parallel()                        // it waits more than it works
	if signal.Ignored(syscall.SIGHUP) { // under nohup, and what this process starts would ignore it too
		heard := make(chan os.Signal, 1)
		signal.Notify(heard, syscall.SIGHUP)
		t.Cleanup(func() { signal.Stop(heard) })
	}
	for _, c := range []struct {
		name string
		end  func(d *desk, stop func())
		code int
		left string
	}{
		{"Ctrl-C", func(d *desk, _ func()) { d.typed("\x03") }, exit.Interrupted, ""},
		{"Ctrl-C twice", func(d *desk, _ func()) { d.typed("\x03\x03") }, exit.Interrupted, ""},
		{"SIGTERM", func(d *desk, _ func()) { d.cmd.Process.Signal(syscall.SIGTERM) }, exit.Interrupted, ""},
		{"SIGHUP", func(d *desk, _ func()) { d.cmd.Process.Signal(syscall.SIGHUP) }, exit.Interrupted, ""},
		{"the server", func(_ *desk, stop func()) { stop() }, exit.Failed, "hone: load: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			addr, stop := echoServer(t)
			d := sitDown(t, 80, 24)
			out, err := os.Create(filepath.Join(t.TempDir(), "result"))
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			d.start(func(cmd *exec.Cmd) { cmd.Stdout = out }, gently(addr)...)
			d.await("the block", whole)
			c.end(d, stop)
			code, left, _ := d.ended()
			if code != c.code || !strings.HasPrefix(left, c.left) || c.left == "" && left != "" {
				t.Errorf("exit code %d, want %d, and this is left: %q", code, c.code, left)
			}
			written, err := os.ReadFile(out.Name())
			if err != nil || c.code == exit.Interrupted && !strings.HasPrefix(string(written), "INVALID: interrupted") || strings.Contains(string(written), "\x1b") {
				t.Errorf("%v, standard output has %q", err, written)
			}
		})
	}
}

// TestTerminalGone checks that a load ends, and keeps its result, when its terminal is closed.
func TestTerminalGone(t *testing.T) {
	t.Parallel() // it waits more than it works
	addr, _ := echoServer(t)
	d := sitDown(t, 80, 24)
	result := filepath.Join(t.TempDir(), "result")
	d.start(nil, gently(addr, "--json", "-o", result)...)
	d.await("the block", whole)
	d.master.Close()
	if code := d.waited(); code != exit.Interrupted {
		t.Errorf("exit code %d", code)
	}
	if written, err := os.ReadFile(result); err != nil || !strings.Contains(string(written), `"interrupted after `) {
		t.Errorf("%v, the result is %q", err, written)
	}
}

// TestTerminalStuck checks that a terminal that takes no output does not keep a result back.
func TestTerminalStuck(t *testing.T) {
	t.Parallel() // it waits more than it works
	addr, _ := echoServer(t)
	d := sitDown(t, 80, 24)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	d.start(func(cmd *exec.Cmd) { cmd.Stdout = write }, gently(addr)...)
	write.Close()
	d.await("the block", whole)
	d.typed("\x13")
	d.cmd.Process.Signal(syscall.SIGTERM)
	read.SetReadDeadline(time.Now().Add(patience))
	first := make([]byte, 20)
	if _, err := io.ReadFull(read, first); err != nil || string(first) != "INVALID: interrupted" {
		t.Errorf("%q, %v", first, err)
	}
	d.typed("\x11")
	d.waited()
}

// TestTerminalPlain checks what is shown without colours, without a block, and without a keyboard.
func TestTerminalPlain(t *testing.T) {
	t.Parallel() // it waits more than it works
	lines := regexp.MustCompile(`(?m)^measuring +\d+s  2 conns  .*errors\r?$`).MatchString
	inLines := func(_ []string, behind string) bool { return lines(behind) }
	for name, c := range map[string]struct {
		set   string
		flags []string
		ok    func([]string, string) bool
		never string
	}{
		"NO_COLOR": {"NO_COLOR=1", nil, whole, "\x1b\\[[0-9;]*m"},
		"dumb":     {"TERM=dumb", nil, inLines, "\x1b"},
		"--plain":  {"LANG=C", []string{"--plain"}, inLines, "\x1b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr, _ := echoServer(t)
			d := sitDown(t, 80, 24)
			d.start(func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, c.set) }, gently(addr, c.flags...)...)
			d.await("the load", c.ok)
			d.typed("\x03")
			if code, _, raw := d.ended(); code != exit.Interrupted || regexp.MustCompile(c.never).MatchString(raw) {
				t.Errorf("exit code %d, %s in %q", code, c.never, raw)
			}
		})
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
	d.await("a prompt", follows("ready: "))
	d.typed(strings.Join(gently(addr), " ") + "\n")
	d.await("the block", whole)
	d.typed("\x1a")
	d.await("the shell", follows("Stopped", "ready: "))
	d.typed("bg\necho still; jobs -r\n")
	d.await("the job to run without a block", follows(" &", "still\r\n", "Running"))
	d.typed("fg\n")
	d.await("the block again", func(block []string, behind string) bool { return behind == "" && whole(block, "") })
	_, _, raw := d.shown()
	_, again, _ := strings.Cut(raw, "fg\r\n")
	if up, line := strings.Index(again, "\x1b[5A"), strings.Index(again, "so far"); up >= 0 && up < line {
		t.Errorf("the new block is drawn over what the shell has written: %q", again)
	}
	d.typed("\x03")
	d.await("the result", follows("INVALID: interrupted"))
	d.typed("echo code $?\n")
	d.await("the exit code", follows("code 130"))
	d.typed("exit\n")
	d.ended()
}

// TestTerminalOfCommands checks the block of every other command, and what an interrupted one leaves.
func TestTerminalOfCommands(t *testing.T) {
	t.Parallel() // it waits more than it works
	addr, _ := echoServer(t)
	free := testrun.FreeAddr(t)
	for name, c := range map[string]struct {
		args  string
		block func([]string, string) bool
		left  string
	}{
		"knee": {"knee " + addr + " -c 2 --expect p99<10s --from 50 --for 1s --warmup 10ms", has("trial 2: ", "req/s", "so far  "), `^INVALID: `},
		"bench": {"bench --cmd exec hone serve --addr " + free + " --admin 127.0.0.1:0 --target " + free + " -c 2 --rate 100 -n 3 -d 10m --warmup 10ms --max-others 100% --discard",
			has("sample 1 of 3: the server, measuring", "rate  ", "so far  "), `^hone: bench: interrupted\r\n$`},
		"demo":    {"demo --for 1s", has("1 of "), `^hone: demo: interrupted`},
		"torture": {"torture " + addr, has("watching the bystanders"), `^`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := strings.Split(c.args, " ")
			if at := slices.Index(args, "--cmd"); at >= 0 { // its value has words
				end := slices.Index(args, "--target")
				args = slices.Concat(args[:at+1], []string{strings.Join(args[at+1:end], " ")}, args[end:])
			}
			d := sitDown(t, 100, 40)
			d.start(nil, append([]string{"hone"}, args...)...)
			d.await("the block", c.block)
			d.typed("\x03")
			if code, left, _ := d.ended(); code != exit.Interrupted || !regexp.MustCompile(c.left).MatchString(left) {
				t.Errorf("exit code %d, and this is left:\n%q", code, left)
			}
		})
	}
}
