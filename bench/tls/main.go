//go:build linux

// Command tls compares servers over TLS: in what a request and an idle connection cost, and in what
// their clients notice of a flood of handshakes.
//
//	go run ./bench/tls            CPU of a request and memory of an idle connection, of six servers
//	go run ./bench/tls -http2     the same over HTTP/2, with one and ten streams on a connection, of four servers
//	go run ./bench/tls -flood     p99 of 100 clients during the flood
//
// -go go1.27.4 has net/http and http1 built with that Go, too.
//
// Rounds of the servers are interleaved. CPU is the server process's; of all that other programs
// do on the machine, it notices caches and clock speed only.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hone-go/hone/bench/service"
	"github.com/hone-go/hone/bench/web"
	"github.com/hone-go/hone/tool/child"
)

// options are the command's flags.
type options struct {
	rounds, requests, idle int
	span                   time.Duration
	http2                  bool
	alsoGo                 string
}

func main() {
	var o options
	flood := flag.Bool("flood", false, "measure what clients notice of a flood")
	floodOn := flag.String("flood-on", "", "flood this `address` with handshakes until standard input ends; -flood starts itself so")
	flag.IntVar(&o.rounds, "rounds", 16, "how often each server is measured")
	flag.IntVar(&o.requests, "requests", 5000, "requests of a round")
	flag.IntVar(&o.idle, "idle", 3000, "idle connections whose memory is measured")
	flag.BoolVar(&o.http2, "http2", false, "speak HTTP/2")
	flag.StringVar(&o.alsoGo, "go", "", "build the servers of net/http and http1 with this `version`, too")
	flag.DurationVar(&o.span, "span", 4*time.Second, "how long a round of -flood takes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := o.peers
	switch {
	case *floodOn != "":
		attack(*floodOn)
		return
	case *flood:
		run = o.floods
	}
	dir, err := os.MkdirTemp("", "bench-tls-")
	if err == nil {
		err = run(ctx, dir)
		os.RemoveAll(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "tls:", err)
		os.Exit(1)
	}
}

// server is a running one.
type server struct {
	*child.Child
	name, addr string
	pid        int
	http2      bool
	conns      []conn
	costs      map[int][]float64 // of a request in µs, by round, for each number of streams
	memory     int64             // of an idle connection
}

// conn is a connection that speaks HTTP/1.1, or HTTP/2.
type conn struct {
	*tls.Conn
	http2 *http.ClientConn
}

// ours starts one of bench/servers, built with the Go of that version; empty: the usual one.
func ours(ctx context.Context, dir, name, version string) (*server, error) {
	path := filepath.Join(dir, name+version)
	build := exec.CommandContext(ctx, "go", "build", "-o", path, "./bench/servers/"+name)
	if version != "" {
		build.Env, version = append(build.Environ(), "GOTOOLCHAIN="+version), ", "+version
	}
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building %s%s: %w\n%s", name, version, err, out)
	}
	c, err := child.Start(exec.CommandContext(ctx, path, "-tls"), child.Options{})
	if err != nil {
		return nil, err
	}
	var ready service.Ready
	if err := c.Answer(ctx, 20*time.Second, &ready); err != nil {
		c.Stop()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &server{Child: c, name: name + version, addr: ready.Addr, pid: ready.PID}, nil
}

const haproxyConfig = `
global
	maxconn 8000
	nbthread 2
defaults
	mode http
	timeout client 600s
	timeout http-keep-alive 600s
	timeout http-request 600s
frontend f
	bind %s ssl crt %s alpn h2,http/1.1
	http-request return status 200 content-type text/plain string "Hello, World!"
`

const nginxConfig = `
%s
daemon off; master_process off; worker_rlimit_nofile 20000; pid %s/pid; error_log %[2]s/errors;
events { worker_connections 16000; }
http {
	access_log off; keepalive_timeout 600s; keepalive_requests 100000000; client_header_timeout 600s;
	client_body_temp_path %[2]s/1; proxy_temp_path %[2]s/2; fastcgi_temp_path %[2]s/3; uwsgi_temp_path %[2]s/4; scgi_temp_path %[2]s/5;
	server {
		listen %[3]s ssl http2; ssl_certificate %[4]s; ssl_certificate_key %[4]s; ssl_protocols TLSv1.2 TLSv1.3;
		location / { return 200 "Hello, World!"; }
	}
}`

// others starts a proxy that answers by itself.
func others(ctx context.Context, dir, name, certificate string) (*server, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := ln.Addr().String()
	ln.Close()
	file, user := filepath.Join(dir, name+".conf"), ""
	text, args := fmt.Sprintf(haproxyConfig, addr, certificate), []string{"-db", "-f", file}
	if name == "nginx" {
		if os.Getuid() == 0 {
			user = "user root;"
		}
		text, args = fmt.Sprintf(nginxConfig, user, dir, addr, certificate), []string{"-c", file, "-e", filepath.Join(dir, "errors")}
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	path, err := exec.LookPath(name)
	if err != nil {
		path = "/usr/sbin/" + name
	}
	c, err := child.Start(exec.CommandContext(ctx, path, args...), child.Options{Signal: true})
	if err != nil {
		return nil, err
	}
	return &server{Child: c, name: name, addr: addr, pid: c.PID}, nil
}

// connect opens n connections, and makes a request on each.
func (s *server) connect(n int) error {
	from := len(s.conns)
	s.conns = append(s.conns, make([]conn, n)...)
	return each(16, n, func(i int) (err error) {
		c := &s.conns[from+i]
		if !s.http2 {
			c.Conn, err = dial(s.addr)
		} else {
			c.http2, err = s.speak2(c)
		}
		if err != nil {
			return err
		}
		return c.ask()
	})
}

// speak2 connects for HTTP/2.
func (s *server) speak2(c *conn) (*http.ClientConn, error) {
	t := http.Transport{Protocols: new(http.Protocols), DialTLSContext: func(context.Context, string, string) (nc net.Conn, err error) {
		c.Conn, err = dial(s.addr, "h2")
		return c.Conn, err
	}}
	t.Protocols.SetHTTP2(true)
	return t.NewClientConn(context.Background(), "https", s.addr)
}

// dial connects, also to a server that is about to listen.
func dial(addr string, protocols ...string) (*tls.Conn, error) {
	for end := time.Now().Add(5 * time.Second); ; <-time.After(20 * time.Millisecond) {
		nc, err := net.Dial("tcp", addr)
		if err == nil {
			return tls.Client(nc, &tls.Config{InsecureSkipVerify: true, NextProtos: protocols}), nil
		}
		if time.Now().After(end) {
			return nil, err
		}
	}
}

// each calls do for 0 to n-1, from so many goroutines.
func each(workers, n int, do func(i int) error) error {
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && failed.Load() == nil; i = int(next.Add(1)) - 1 {
				if err := do(i); err != nil {
					failed.Store(&err)
				}
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

func (s *server) close() {
	for _, c := range s.conns {
		if c.Conn != nil {
			c.NetConn().Close()
		}
	}
	s.conns = nil
}

func (c *conn) ask() error {
	if c.http2 != nil {
		r, err := http.NewRequest("GET", "https://localhost"+web.HelloPath, nil)
		if err != nil {
			return err
		}
		answer, err := c.http2.RoundTrip(r)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if body, err := io.ReadAll(answer.Body); string(body) != "Hello, World!" {
			return fmt.Errorf("%q, %w", body, err)
		}
		return nil
	}
	if _, err := io.WriteString(c, "GET "+web.HelloPath+" HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		return err
	}
	var p [1024]byte
	for got := ""; !strings.HasSuffix(got, "Hello, World!"); {
		n, err := c.Read(p[:])
		if got += string(p[:n]); err != nil {
			return fmt.Errorf("%w after %q", err, got)
		}
	}
	return nil
}

// certified writes a certificate and its key to a file.
func certified(dir string) (string, error) {
	cert, err := web.Certificate()
	if err != nil {
		return "", err
	}
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "certificate.pem")
	text := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})...)
	return file, os.WriteFile(file, text, 0o600)
}

// median returns the middle of figures, and the 95% interval of the median.
func median(all []float64) (low, middle, high float64) {
	all = slices.Sorted(slices.Values(all))
	n := len(all)
	k := max(0, int(float64(n)/2-0.98*math.Sqrt(float64(n))))
	return all[k], (all[(n-1)/2] + all[n/2]) / 2, all[n-1-k]
}
