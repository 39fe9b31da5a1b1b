package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/hone-go/hone/bench/service"
	"github.com/hone-go/hone/bench/web"
	"github.com/hone-go/hone/tool/child"
	"github.com/hone-go/hone/wire"
)

// shape is a load: all connections ask at once, and again when all have been answered.
type shape struct {
	name    string
	program string // a folder of the module bench
	library string // the package of hone that the program serves with
	request []byte // of HTTP, or the content of a frame; nil: WebSockets
	conns   int
	depth   int    // requests that a connection sends at a time
	rounds  int    // in which every connection asks
	path    string // of WebSockets; empty: no WebSockets
}

// shapes are as many requests as take valgrind some seconds.
func shapes() []shape {
	hello := []byte("GET " + web.HelloPath + " HTTP/1.1\r\nHost: localhost:8080\r\n\r\n")
	once := []byte("GET " + web.OncePath + " HTTP/1.1\r\nHost: localhost:8080\r\n\r\n")
	frame, late := []byte("sixteen letters."), append([]byte{service.Late}, "ixteen letters."...)
	return []shape{
		{"framed 100×1", "servers/hone", "framed", frame, 100, 1, 1000, ""},
		{"framed 100×64", "servers/hone", "framed", frame, 100, 64, 60, ""},
		{"framed late 100×1", "servers/hone", "framed", late, 100, 1, 500, ""},
		{"framed late 100×16", "servers/hone", "framed", late, 100, 16, 60, ""},
		{"http1 hello 64×1", "servers/http1", "http1", hello, 64, 1, 1000, ""},
		{"http1 pipelined 64×16", "servers/http1", "http1", hello, 64, 16, 100, ""},
		{"http1 flush 64×16", "servers/http1", "http1", once, 64, 16, 50, ""},
		{"ws echo 64×1", "servers/ws", "websocket", nil, 64, 1, 1000, web.EchoPath},
		{"ws echo 64×16", "servers/ws", "websocket", nil, 64, 16, 100, web.EchoPath},
	}
}

func (s shape) buildsWith(hone string) bool {
	_, err := os.Stat(filepath.Join(hone, s.library))
	return err == nil
}

// count is what a request costs.
func (s shape) count(ctx context.Context, dir, engine string) (profile, error) {
	once, err := s.serve(ctx, dir, engine, s.rounds)
	if err != nil {
		return nil, err
	}
	cost, err := s.serve(ctx, dir, engine, 2*s.rounds)
	if err != nil {
		return nil, err
	}
	for name, before := range once {
		cost[name] -= before
	}
	for name := range cost {
		cost[name] /= float64(s.rounds * s.conns * s.depth)
	}
	return cost, nil
}

const (
	readyTime = time.Minute     // for a server to start under valgrind
	endTime   = time.Minute     // for valgrind to write its counts
	serveTime = 5 * time.Minute // for all rounds
)

// serve has a server under valgrind serve that many rounds, and returns its counts.
func (s shape) serve(ctx context.Context, dir, engine string, rounds int) (profile, error) {
	file := filepath.Join(dir, "counts")
	server, addr, err := s.start(ctx, dir, engine, file)
	if err != nil {
		return nil, err
	}
	defer server.Stop()
	if err := s.ask(ctx, addr, rounds); err != nil {
		return nil, err
	}
	server.Stop()
	if err := server.How(); err != nil {
		return nil, fmt.Errorf("the server ended with %w: %s", err, server.Said())
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return parseProfile(text)
}

// start starts the server, which writes its counts into file at its end. A server chooses its
// port some time before it listens, and longer under valgrind: when another program has
// taken the port meanwhile, the next attempt has another one.
func (s shape) start(ctx context.Context, dir, engine, file string) (server *child.Child, addr string, err error) {
	const attempts = 3
	for range attempts {
		cmd := exec.CommandContext(ctx, "valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file="+file,
			filepath.Join(dir, path.Base(s.program)), "--loops", "1", "--engine", engine)
		cmd.Env = append(cmd.Environ(), "GOGC=off", "GODEBUG=asyncpreemptoff=1")
		if server, err = child.Start(cmd, child.Options{Grace: endTime}); err != nil {
			return nil, "", err
		}
		var ready service.Ready
		if err = server.Answer(ctx, readyTime, &ready); err == nil {
			return server, ready.Addr, nil
		}
		server.Stop()
	}
	return nil, "", err
}

// ask asks for that many rounds, and compares every answer.
func (s shape) ask(ctx context.Context, addr string, rounds int) error {
	conns := make([]net.Conn, s.conns)
	for i := range conns {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		defer conn.Close()
		defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Now()) })()
		if err := conn.SetDeadline(time.Now().Add(serveTime)); err != nil {
			return err
		}
		if s.path != "" {
			if err := web.Upgrade(conn, s.path); err != nil {
				return err
			}
		}
		conns[i] = conn
	}
	requests, answers, err := s.exchange(conns[0])
	if err != nil {
		return err
	}
	web.Undate(answers)
	got := make([]byte, len(answers))
	for range rounds {
		for _, conn := range conns {
			if _, err := conn.Write(requests); err != nil {
				return err
			}
		}
		for _, conn := range conns {
			if _, err := io.ReadFull(conn, got); err != nil {
				return err
			}
			if web.Undate(got); !bytes.Equal(got, answers) {
				return fmt.Errorf("the server answers %.80q, and before it was %.80q", got, answers)
			}
		}
	}
	return nil
}

// exchange is what a connection sends in a round, and what it is to receive.
func (s shape) exchange(conn net.Conn) (requests, answers []byte, err error) {
	switch {
	case s.path != "":
		content := web.Echoed()
		head := []byte{0x82, 0x80 | byte(len(content)), 0, 0, 0, 0} // a mask of zeros
		answer := append([]byte{0x82, byte(len(content))}, content...)
		return bytes.Repeat(append(head, content...), s.depth), bytes.Repeat(answer, s.depth), nil
	case s.library == "framed":
		for id := range uint64(s.depth) {
			requests = wire.Append(requests, wire.Packet{Command: wire.Submit, ID: id + 1, Content: s.request})
			answers = wire.Append(answers, wire.Packet{Command: wire.SubmitAck, ID: id + 1, Content: s.request})
		}
		return requests, answers, nil
	}
	answer, err := ask(conn, s.request)
	return bytes.Repeat(s.request, s.depth), bytes.Repeat(answer, s.depth), err
}

// ask returns the answer as it came.
func ask(conn net.Conn, request []byte) ([]byte, error) {
	if _, err := conn.Write(request); err != nil {
		return nil, err
	}
	var came bytes.Buffer
	answer, err := http.ReadResponse(bufio.NewReader(io.TeeReader(conn, &came)), nil)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if _, err = io.Copy(io.Discard, answer.Body); err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New("the server answers " + answer.Status)
	}
	return came.Bytes(), err
}

// profile is how many instructions were spent in each function by itself.
type profile map[string]float64

// parseProfile reads what cachegrind writes: fn=NAME, and then for each line of source the
// line's number and its instructions.
func parseProfile(text []byte) (profile, error) {
	p, function := make(profile), ""
	for line := range bytes.Lines(text) {
		words := strings.Fields(string(line))
		switch {
		case bytes.HasPrefix(line, []byte("fn=")):
			function = strings.TrimSpace(string(line[len("fn="):]))
		case len(words) == 2 && function != "" && words[0] != "summary:":
			n, err := strconv.ParseInt(words[1], 10, 64)
			if err != nil {
				continue // the name of a file, with a space
			}
			p[function] += float64(n)
		case len(words) == 2 && words[0] == "summary:":
			if words[1] != strconv.FormatInt(int64(p.total()), 10) {
				return nil, fmt.Errorf("valgrind has counted %s instructions, and %.0f in functions", words[1], p.total())
			}
			return p, nil
		}
	}
	return nil, errors.New("valgrind's counts have no end")
}

func (p profile) total() (sum float64) {
	for _, cost := range p {
		sum += cost
	}
	return sum
}

// withoutRuntime is the total without the functions of package runtime.
func (p profile) withoutRuntime() (sum float64) {
	for name, cost := range p {
		if !strings.HasPrefix(name, "runtime.") {
			sum += cost
		}
	}
	return sum
}
