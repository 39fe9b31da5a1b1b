package main

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
	"time"

	"github.com/hone-go/hone/observe"
	"github.com/hone-go/hone/tool/load"
)

const (
	statsTime = time.Second // for one answer
	statsSize = 1 << 20
)

// serverStats reads a server's admin side at the edges of a run's window.
type serverStats struct {
	url           string
	client        http.Client
	transport     http.Transport
	before, after *observe.Snapshot // nil: could not be read
}

// newServerStats takes a URL, HOST:PORT or unix:PATH.
func newServerStats(where string) (*serverStats, error) {
	s := &serverStats{url: where}
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
		return nil, wrongUse("load: --server-stats %q is no address; write it as in http://127.0.0.1:7070", where)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/stats"
	}
	s.url = u.String()
	return s, nil
}

// close lets go of the connection.
func (s *serverStats) close() { s.transport.CloseIdleConnections() }

// reachable finds out before a run whether there is something to read.
func (s *serverStats) reachable(ctx context.Context) error {
	_, err := s.read(ctx)
	return err
}

// read reads the snapshot.
func (s *serverStats) read(ctx context.Context) (*observe.Snapshot, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := s.client.Do(req)
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
		return nil, fmt.Errorf("%s is not a hone server's /stats; use the address that hone serve has as --admin", s.url)
	}
	return snapshot, nil
}

// opens and closes are a load.Plan's WindowOpens and WindowCloses. What cannot
// be read then is missing in the result.
func (s *serverStats) opens()  { s.before, _ = s.read(context.Background()) }
func (s *serverStats) closes() { s.after, _ = s.read(context.Background()) }

// used is what the server used between the two; nil when they are not there, or
// not of the same process.
func (s *serverStats) used() *load.Server {
	a, b := s.before, s.after
	if a == nil || b == nil || a.PID != b.PID || b.UptimeSeconds < a.UptimeSeconds {
		return nil
	}
	used := &load.Server{RSS: b.RSSBytes, Engine: &b.Engine}
	if a.CPUSeconds != nil && b.CPUSeconds != nil && b.RequestsReceived > a.RequestsReceived {
		each := (*b.CPUSeconds - *a.CPUSeconds) / float64(b.RequestsReceived-a.RequestsReceived) * 1e6
		used.CPUPerRequest = &each
	}
	return used
}
