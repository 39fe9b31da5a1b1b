package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/tool/serving"
)

// upgraded is a server that is replaced while clients use it.
type upgraded struct {
	flags   []string
	log     io.Writer
	network string // of addr
	addr    string
	tls     bool
	dir     string

	mu     sync.Mutex
	counts map[string]int // of what clients did, and of what went wrong, by the first words
	all    atomic.Int64
}

// upgrades replaces hone serve with FLAG… under 500 new connections a second, of clients of HTTP or of frames, three
// times or 50. Of HTTP, some upload, some read streams, and others keep their connections.
func upgrades(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: upgrades http|frames FLAG…")
	}
	folder, err := os.MkdirTemp("", "hone")
	ts.Check(err)
	defer os.RemoveAll(folder)
	log, err := os.Create(ts.MkAbs("server.log"))
	ts.Check(err)
	defer log.Close()
	u := &upgraded{
		flags: append([]string{"serve", "--json", "--admin", "127.0.0.1:0", "--upgrade", "unix:" + filepath.Join(folder, "upgrade")}, args[1:]...),
		log:   log, counts: map[string]int{}, dir: ts.MkAbs("."), tls: slices.Contains(args, "--cert"), network: "tcp",
	}
	old, ready, err := u.start()
	ts.Check(err)
	defer func() { old.Process.Kill() }()
	if u.addr = ready.Addr; strings.HasPrefix(ready.Addr, "unix:") {
		u.network, u.addr = "unix", filepath.Join(u.dir, ready.Addr[len("unix:"):])
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	until, stop := context.WithCancel(ctx)
	defer stop()
	var clients, servers sync.WaitGroup
	u.open(ctx, until, &clients, args[0])
	if args[0] == "http" {
		for range 8 {
			clients.Go(func() { u.keep(until) })
		}
	}
	for range testrun.Sized(3, 50) {
		for before := u.all.Load(); u.all.Load() < before+100 && until.Err() == nil; {
			<-time.After(time.Millisecond)
		}
		next, again, err := u.start()
		if err != nil || again.Addr != ready.Addr || *again.Admin != *ready.Admin {
			ts.Fatalf("%v: %+v, want the addresses of %+v; %s", err, again, ready, ts.ReadFile("server.log"))
		}
		last := old
		servers.Go(func() {
			if err := last.Wait(); err != nil {
				u.count("a server ended: "+err.Error(), 1)
			}
		})
		old = next
	}
	servers.Wait()
	stop()
	clients.Wait()
	old.Process.Signal(os.Interrupt)
	if err := old.Wait(); err != nil {
		u.count("the last server ended: "+err.Error(), 1)
	}
	for _, what := range slices.Sorted(maps.Keys(u.counts)) {
		fmt.Fprintln(ts.Stdout(), u.counts[what], what)
	}
}

func (u *upgraded) count(what string, n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.counts[what] += n
	u.all.Add(1)
}

// start starts a server and waits until it is ready.
func (u *upgraded) start() (cmd *exec.Cmd, ready serving.Ready, err error) {
	cmd = exec.Command("hone", u.flags...)
	cmd.Dir, cmd.Stderr, cmd.Env = u.dir, u.log, append(os.Environ(), "GORACE="+quickExit)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, ready, err
	}
	if err = json.NewDecoder(out).Decode(&ready); err != nil {
		cmd.Process.Kill()
		cmd.Wait()
	}
	return cmd, ready, err
}

func (u *upgraded) dial(ctx context.Context) (net.Conn, error) {
	if u.tls {
		return (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(ctx, u.network, u.addr)
	}
	return new(net.Dialer).DialContext(ctx, u.network, u.addr)
}

// open opens 500 connections a second and uses each once, until that ends.
func (u *upgraded) open(ctx, until context.Context, clients *sync.WaitGroup, speak string) {
	clients.Go(func() {
		pace := time.NewTicker(2 * time.Millisecond)
		defer pace.Stop()
		for i := 0; until.Err() == nil; i++ {
			<-pace.C
			clients.Go(func() {
				what, err := "frames", error(nil)
				if speak == "http" {
					what = [...]string{"requests", "uploads", "requests", "streams"}[i%4]
					err = u.request(ctx, what)
				} else {
					err = u.call(ctx)
				}
				if err != nil {
					what = fmt.Sprintf("%s: %v", what, errors.Unwrap(err))
				}
				u.count(what, 1)
			})
		}
	})
}

// call sends a frame on a connection of its own.
func (u *upgraded) call(ctx context.Context) error {
	nc, err := u.dial(ctx)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	c := framed.NewClient(nc, framed.ClientOptions{})
	defer c.Close()
	reply, err := c.Call(ctx, nil, []byte("hello"))
	if err == nil && string(reply) != "HELLO" {
		err = fmt.Errorf("a wrong reply: %q", reply)
	}
	return err
}

// request sends a request on a connection of its own.
func (u *upgraded) request(ctx context.Context, what string) error {
	const size = 100 << 10
	method, path, body := http.MethodGet, "/hello", io.Reader(nil)
	switch what {
	case "uploads":
		method, path, body = http.MethodPost, "/echo", strings.NewReader(strings.Repeat("x", size))
	case "streams":
		path = "/stream?n=10&pause=20ms"
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://server"+path, body)
	if err != nil {
		return err
	}
	c := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return u.dial(ctx) },
	}}
	answer, err := c.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	whole := len(text) > 0
	switch what {
	case "uploads":
		whole = len(text) == size
	case "streams":
		whole = strings.Count(string(text), "data:") == 10
	}
	if err == nil && (!whole || answer.StatusCode != http.StatusOK) {
		err = fmt.Errorf("%w: %s, %d bytes", io.ErrUnexpectedEOF, answer.Status, len(text))
	}
	return err
}

// keep sends requests on a connection for as long as the server keeps it.
func (u *upgraded) keep(until context.Context) {
	for until.Err() == nil {
		asked := time.Now()
		err := func() error {
			nc, err := u.dial(until)
			if err != nil {
				return err
			}
			defer nc.Close()
			for in := bufio.NewReader(nc); until.Err() == nil; {
				<-time.After(10 * time.Millisecond)
				if _, err := io.WriteString(nc, "GET /hello HTTP/1.1\r\nHost: server\r\n\r\n"); err != nil {
					return err
				}
				if _, err := in.Peek(1); err == io.EOF { // idle when the server drained
					if time.Since(asked) < time.Second/4 { // which each has; otherwise it was the machine that made it wait
						u.count("kept until closed", 1)
					}
					return nil
				}
				asked = time.Now()
				answer, err := http.ReadResponse(in, nil)
				if err != nil {
					return err
				}
				if _, err := io.Copy(io.Discard, answer.Body); err != nil {
					return err
				}
				if u.count("kept", 1); answer.Close {
					u.count("kept until Connection: close", 1)
					return nil
				}
			}
			return nil
		}()
		if err != nil && until.Err() == nil {
			u.count("kept: "+err.Error(), 1)
		}
	}
}
