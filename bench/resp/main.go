// Command resp compares examples/resp with Redis and with github.com/tidwall/redcon: the CPU of the
// server for a command of redis-benchmark, in rounds that take turns.
//
//	go run ./bench/resp
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/bench/report"
)

// cases are the arguments of redis-benchmark, and how many commands it sends for each of size.
var cases = []struct {
	name  string
	args  []string
	times int
}{
	{"GET", []string{"-t", "get", "-P", "1"}, 1},
	{"SET", []string{"-t", "set", "-P", "1"}, 1},
	{"GET, 16 at once", []string{"-t", "get", "-P", "16"}, 8},
	{"SET, 16 at once", []string{"-t", "set", "-P", "16"}, 8},
	{"INCR, 64 at once", []string{"-t", "incr", "-P", "64"}, 8},
}

func main() {
	rounds := flag.Int("rounds", 5, "how many `times` each server is measured")
	size := flag.Int("size", 100_000, "how many `commands` a measurement has, and eight times as many where several are sent at once")
	serve := flag.String("redcon", "", "serve on `address` with redcon, as the process that is measured")
	flag.Parse()
	var err error
	if *serve != "" {
		err = serveRedcon(*serve)
	} else {
		err = run(os.Stdout, *rounds, *size)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "resp:", err)
		os.Exit(1)
	}
}

// server is one of those that are compared.
type server struct {
	name, port string
	cmd        *exec.Cmd
	cost       [][]float64 // µs of CPU for a command: of each case, in each round
}

// run starts the servers, measures them in turn and prints a table of medians.
func run(out io.Writer, rounds, size int) (err error) {
	dir, err := os.MkdirTemp("", "resp")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	hone := filepath.Join(dir, "hone")
	if text, err := exec.Command("go", "build", "-o", hone, "github.com/hone-go/hone/examples/resp").CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, text)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var servers []*server
	defer func() {
		for _, s := range servers {
			err = errors.Join(err, s.end())
		}
	}()
	for _, s := range []struct {
		name, program string
		args          func(port string) []string
	}{
		{"hone", hone, func(port string) []string { return []string{"-addr", "127.0.0.1:" + port} }},
		{"redcon", self, func(port string) []string { return []string{"-redcon", "127.0.0.1:" + port} }},
		{"Redis", "redis-server", func(port string) []string {
			return []string{"--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--appendonly", "no"}
		}},
	} {
		one, err := start(s.name, s.program, s.args)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		servers = append(servers, one)
	}
	for round := range rounds {
		for i := range servers {
			s := servers[(round+i)%len(servers)] // another one is first in each round
			for at, c := range cases {
				cost, err := s.measure(c.args, size*c.times)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", s.name, c.name, err)
				}
				s.cost[at] = append(s.cost[at], cost)
			}
		}
	}
	table(out, servers)
	return nil
}

// start starts a server on a free port and waits until it accepts connections.
func start(name, program string, args func(port string) []string) (*server, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	ln.Close()
	s := &server{name: name, port: port, cmd: exec.Command(program, args(port)...), cost: make([][]float64, len(cases))}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	for range 500 {
		if nc, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
			return s, nc.Close()
		}
		time.Sleep(10 * time.Millisecond) // nothing tells when another program listens
	}
	return nil, errors.Join(errors.New("does not accept connections"), s.end())
}

// end stops the server.
func (s *server) end() error {
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
		return err
	}
	if err := s.cmd.Wait(); err != nil && s.name == "hone" {
		return err // the others may end as they like
	}
	return nil
}

// measure runs redis-benchmark and returns the server's µs of CPU for a command.
func (s *server) measure(args []string, n int) (float64, error) {
	before, err := fleet.ProcessCPU(s.cmd.Process.Pid)
	if err != nil {
		return 0, err
	}
	out, err := exec.Command("redis-benchmark", append([]string{"-p", s.port, "-q", "-c", "50", "-n", strconv.Itoa(n)}, args...)...).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "requests per second") {
		return 0, fmt.Errorf("redis-benchmark: %w: %s", cmp.Or(err, errors.New("no result")), out)
	}
	after, err := fleet.ProcessCPU(s.cmd.Process.Pid)
	return float64(after-before) / 1e3 / float64(n), err
}

// table prints the medians, and how the first server compares with the others.
func table(out io.Writer, servers []*server) {
	fmt.Fprintln(out, "| redis-benchmark, 50 connections | hone, µs of CPU | redcon | Redis | hone ÷ redcon | hone ÷ Redis |\n|---|--:|--:|--:|--:|--:|")
	for at, c := range cases {
		var m [3]float64
		for i, s := range servers {
			m[i] = report.SpreadOf(s.cost[at]).Median
		}
		fmt.Fprintf(out, "| %s | %.2f | %.2f | %.2f | %.2f | %.2f |\n", c.name, m[0], m[1], m[2], m[0]/m[1], m[0]/m[2])
	}
}
