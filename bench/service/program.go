package service

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Ready is the first line on a server's standard output, as JSON.
type Ready struct {
	Addr string `json:"addr"`
	PID  int    `json:"pid"`
}

// Collect is the line on a server's standard input that makes it give back all
// memory that it can; it answers with a line when it has.
const Collect = "collect"

// Main is the body of a server program: flags, then serve, which must call ready
// once clients can connect and need not return. The program ends when its
// standard input does, so none outlives who started it. The first of engines is
// the default.
func Main(engines []string, serve func(o Options, ready func(addr string)) error) {
	out, err := ownOutput()
	if err == nil {
		err = run(engines, serve, os.Args[1:], os.Stdin, out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// ownOutput is standard output for this package alone: what libraries log there,
// and some do, goes to standard error from now on.
func ownOutput() (*os.File, error) {
	const stdout, stderr = 1, 2
	own, err := syscall.Dup(stdout)
	if err == nil {
		syscall.CloseOnExec(own)
		err = syscall.Dup3(stderr, stdout, 0)
	}
	if err != nil {
		return nil, os.NewSyscallError("dup", err)
	}
	return os.NewFile(uintptr(own), "answers"), nil
}

func run(engines []string, serve func(Options, func(string)) error, args []string, in io.Reader, out io.Writer) error {
	o, err := options(engines, args)
	if err != nil {
		return err
	}
	if o.Loops == 0 {
		o.Loops = runtime.NumCPU()
	}
	runtime.GOMAXPROCS(o.Loops)
	ended := make(chan error, 2)
	lines := json.NewEncoder(out)
	ready := func(addr string) {
		if err := lines.Encode(Ready{addr, os.Getpid()}); err != nil {
			ended <- err
		}
		go func() { ended <- obey(in, lines, o.Pusher) }()
	}
	go func() {
		err := serve(o, ready)
		if err == nil {
			err = errors.New("without an error")
		}
		ended <- fmt.Errorf("the server has stopped by itself (%w)", err)
	}()
	return <-ended
}

// options reads the flags, which are the same for every program.
func options(engines, args []string) (o Options, err error) {
	f := flag.NewFlagSet("server", flag.ContinueOnError)
	f.StringVar(&o.Addr, "addr", "127.0.0.1:0", "where to listen; port 0 picks one")
	f.IntVar(&o.Loops, "loops", 0, "event loops or pollers, and GOMAXPROCS; 0: one a CPU")
	f.IntVar(&o.Conns, "conns", 16_384, "connections to allow, where there is a limit")
	f.StringVar(&o.Engine, "engine", engines[0], "one of "+strings.Join(engines, ", "))
	f.BoolVar(&o.TLS, "tls", false, "speak TLS, where the program can")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	case !slices.Contains(engines, o.Engine):
		return o, fmt.Errorf("there is no engine %q; there are %s", o.Engine, strings.Join(engines, ", "))
	case o.Loops < 0 || o.Conns < 1:
		return o, errors.New("--loops is 0 or more, --conns 1 or more")
	}
	o.Pusher = new(Pusher)
	if o.Addr, err = chosen(o.Addr); err != nil {
		return o, err
	}
	return o, nil
}

// chosen is addr with a port in the place of 0. Not every engine tells which
// port it has been given, so all are given one; in the moment between, another
// program could take it, and then the server says so and ends.
func chosen(addr string) (string, error) {
	if !strings.HasSuffix(addr, ":0") {
		return addr, nil
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return "", err
	}
	defer ln.Close()
	return ln.Addr().String(), nil
}

// obey does what the lines of in say until it ends.
func obey(in io.Reader, out *json.Encoder, to *Pusher) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		line := lines.Text()
		answer := line
		switch {
		case line == Collect:
			debug.FreeOSMemory()
			debug.FreeOSMemory() // what finalizers and pools let go of in the first
		case line == Push && to.Push != nil:
			to.Push(Message())
		case line == Count && to.Count != nil:
			answer = strconv.Itoa(to.Count())
		default:
			return fmt.Errorf("there is no command %q", line)
		}
		if err := out.Encode(answer); err != nil {
			return err
		}
	}
	return lines.Err()
}
