// Package admin reads the admin side of a hone server: what it has served, and at what
// cost.
package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/hone-go/hone/observe"
	"github.com/hone-go/hone/tool/exit"
	"github.com/hone-go/hone/tool/load"
)

// Server reads a server's admin side at the start and end of a run's window.
type Server struct {
	url           string
	client        http.Client
	transport     http.Transport
	before, after *observe.Snapshot // nil: could not be read
}

// Open accepts a URL, HOST:PORT or unix:PATH.
func Open(where string) (*Server, error) {
	s := &Server{url: where}
	s.client = http.Client{Transport: &s.transport, Timeout: statsTime}
	if path, ok := strings.CutPrefix(where, "unix:"); ok {
		s.url = "http://localhost"
		s.transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
	} else if !strings.Contains(where, "://") {
		s.url = "http://" + where
	}
	u, err := url.Parse(s.url)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, exit.Usagef("load: --server-stats %q is not an address; write it as in http://127.0.0.1:7070", where)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/stats"
	}
	s.url = u.String()
	return s, nil
}

// Close closes idle connections.
func (s *Server) Close() { s.transport.CloseIdleConnections() }

// Reachable checks before a run that the admin side can be read.
func (s *Server) Reachable(ctx context.Context) error {
	_, err := s.Read(ctx)
	return err
}

// Read reads a snapshot.
func (s *Server) Read(ctx context.Context) (*observe.Snapshot, error) {
	resp, err := s.get(ctx, s.url)
	if err != nil {
		var outer *url.Error
		if errors.As(err, &outer) {
			err = outer.Err
		}
		return nil, fmt.Errorf("%w; check the server's --admin address", err)
	}
	defer resp.Body.Close()
	snapshot := new(observe.Snapshot)
	err = json.NewDecoder(io.LimitReader(resp.Body, statsSize)).Decode(snapshot)
	if resp.StatusCode != http.StatusOK || err != nil || !strings.HasPrefix(snapshot.Schema, "hone.stats/") {
		return nil, fmt.Errorf("%s is not a hone server's /stats; use the --admin address of hone serve", s.url)
	}
	return snapshot, nil
}

func (s *Server) get(ctx context.Context, address string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	return s.client.Do(request)
}

// WindowOpens is for load.Plan. If the read fails, the result lacks these figures.
func (s *Server) WindowOpens() { s.before, _ = s.Read(context.Background()) }

// WindowCloses is for load.Plan, like WindowOpens.
func (s *Server) WindowCloses() { s.after, _ = s.Read(context.Background()) }

// Used returns what the server used between the two snapshots; nil if one is missing or
// they are of different processes.
func (s *Server) Used() *load.Server {
	a, b := s.before, s.after
	if a == nil || b == nil || a.PID != b.PID || b.UptimeSeconds < a.UptimeSeconds {
		return nil
	}
	used := &load.Server{RSS: b.RSSBytes, Engine: &b.Engine}
	if a.CPUSeconds != nil && b.CPUSeconds != nil && b.RequestsReceived > a.RequestsReceived {
		used.CPUPerRequest = new((*b.CPUSeconds - *a.CPUSeconds) / float64(b.RequestsReceived-a.RequestsReceived) * 1e6)
	}
	return used
}

// WatchIdle reads the server's memory before and after the idle connections are opened.
// The returned function adds the difference to the result.
func (s *Server) WatchIdle(p *load.Plan) (fill func(*load.Result)) {
	var before, after *int64
	resident := func() *int64 {
		snapshot, err := s.Read(context.Background())
		if err != nil {
			return nil // the result lacks it
		}
		return snapshot.RSSBytes
	}
	p.IdleOpens, p.IdleOpened = func() { before = resident() }, func() { after = resident() }
	return func(r *load.Result) {
		if r.Idle == nil || r.Idle.Conns == 0 || before == nil || after == nil || *after <= *before {
			return // too little to measure
		}
		r.Idle.ServerBytes = new(float64(*after-*before) / float64(r.Idle.Conns))
	}
}
