package deploy

import (
	"context"
	"encoding/json"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hone-go/hone/conns"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/http1"
	"github.com/hone-go/hone/observe"
	"github.com/hone-go/hone/pool"
	"github.com/hone-go/hone/workers"
)

// configuration is the deploy folder's, with these addresses and rules, and short
// intervals.
func configuration(t *testing.T, admin, node, alertmanager, rules string) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	replace := func(content, old, with string) string {
		t.Helper()
		if !strings.Contains(content, old) {
			t.Fatalf("there is no %q in\n%s", old, content)
		}
		return strings.ReplaceAll(content, old, with)
	}
	main := text(t, "prometheus", "prometheus.yml")
	main = replace(main, "scrape_interval: 5s", "scrape_interval: 1s")
	main = replace(main, "evaluation_interval: 15s", "evaluation_interval: 1s")
	main = replace(main, "node-exporter:9100", node)
	main = replace(main, "alertmanager:9093", alertmanager)
	write("prometheus.yml", main)
	write("rules.yml", rules)
	write("targets/compose.yml", replace(text(t, "prometheus", "targets", "compose.yml"), "hone:7070", admin))
	return filepath.Join(dir, "prometheus.yml")
}

// loadedServer serves requests and uses pools until the test ends, and returns
// the address of its admin side.
func loadedServer(t *testing.T) string {
	t.Helper()
	var hits atomic.Uint64
	unlimited := debug.SetMemoryLimit(1 << 40)
	t.Cleanup(func() { debug.SetMemoryLimit(unlimited) })
	latency := &observe.Latency{Every: 1}
	srv := &framed.Server{Handler: latency.Wrap(framed.HandlerFunc(func(_ framed.Call, dst, req []byte) ([]byte, error) {
		hits.Add(1)
		return append(dst, req...), nil
	}))}
	clients := conns.New(conns.Config[net.Conn]{
		Max: 1, // so that callers wait
		Dial: func(context.Context) (net.Conn, error) {
			ours, theirs := net.Pipe()
			theirs.Close()
			return ours, nil
		},
		AlwaysAsk: true,
		Alive:     func(net.Conn, time.Duration) error { return nil },
	})
	crew := workers.New(workers.Options{Limit: workers.Auto(workers.AutoOptions{})})
	var bodies pool.Buffers
	admin := &observe.Admin{
		Stats: srv.Stats, Latency: latency, HTTP: func() http1.Stats { return http1.Stats{Fast: 1} },
		Conns:   map[string]func() conns.Stats{"upstream": clients.Stats},
		Workers: map[string]observe.WorkerPool{"images": crew},
		Buffers: map[string]func() pool.Stats{"bodies": bodies.Stats},
		Caches:  map[string]func() observe.Cache{"avatars": func() observe.Cache { return observe.Cache{Hits: hits.Load(), Misses: 1} }},
	}
	public, private := loopback(t), loopback(t)
	var sides sync.WaitGroup
	sides.Go(func() { srv.Serve(public) })
	sides.Go(func() { admin.Serve(private) })
	ctx, cancel := context.WithCancel(context.Background())
	for range 4 {
		sides.Go(func() { ask(ctx, public.Addr().String()) })
		sides.Go(func() { use(ctx, clients, crew, &bodies) })
	}
	t.Cleanup(func() {
		cancel()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		srv.Close()
		for _, err := range []error{admin.Shutdown(ctx), clients.Close(ctx), crew.Close(ctx)} {
			if err != nil {
				t.Error(err)
			}
		}
		sides.Wait()
	})
	return private.Addr().String()
}

func loopback(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// pace is a pause between two rounds of the load, which should exist without using much
// CPU.
const pace = 20 * time.Millisecond

// ask is a client of the server.
func ask(ctx context.Context, addr string) {
	client := &framed.Mux{Addr: addr}
	defer client.Close()
	for ctx.Err() == nil {
		client.Call(ctx, nil, []byte("hello")) // an error is the end of ctx, or shows in the panels
		<-time.After(pace)
	}
}

// use uses the pools, and collects garbage.
func use(ctx context.Context, clients *conns.Pool[net.Conn], crew *workers.Pool, bodies *pool.Buffers) {
	for ctx.Err() == nil {
		lease, err := clients.Get(ctx)
		if err != nil {
			return
		}
		b := bodies.Get(1000)
		done := make(chan struct{})
		if crew.Go(ctx, func() { runtime.GC(); close(done) }) == nil {
			<-done
		}
		b.Release()
		<-time.After(pace)
		lease.Release()
	}
}

// api is Prometheus's HTTP API.
type api struct {
	base string
	http http.Client
}

// newAPI waits until Prometheus is ready, which is later than listening.
func newAPI(t *testing.T, addr string) *api {
	t.Helper()
	transport := new(http.Transport)
	t.Cleanup(transport.CloseIdleConnections)
	a := &api{"http://" + addr + "/api/v1/", http.Client{Transport: transport, Timeout: patience}}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); <-time.After(10 * time.Millisecond) {
		response, err := a.http.Get("http://" + addr + "/-/ready")
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode == http.StatusOK {
			return a
		}
	}
	t.Fatalf("Prometheus is not ready after %v", patience)
	panic("unreachable")
}

// get reads the data of a response.
func (a *api) get(t *testing.T, path string, query url.Values, data any) {
	t.Helper()
	response, err := a.http.Get(a.base + path + "?" + query.Encode())
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Status != "success" {
		t.Fatalf("%s?%s: %v %s", path, query.Encode(), err, body)
	}
}

// hasData reports whether an expression has a numeric value. An expression that cannot be
// parsed ends the test.
func (a *api) hasData(t *testing.T, expr string) bool {
	t.Helper()
	var data struct {
		Result []struct {
			Value [2]any
		}
	}
	a.get(t, "query", url.Values{"query": {expr}}, &data)
	for _, r := range data.Result {
		if v, ok := r.Value[1].(string); ok && !strings.EqualFold(v, "nan") {
			return true
		}
	}
	return false
}

// checkRules waits until every rule has been evaluated, and checks that none failed.
func (a *api) checkRules(t *testing.T) {
	t.Helper()
	var data struct {
		Groups []struct {
			Rules []struct {
				Name, Health, LastError string
			}
		}
	}
	deadline := time.Now().Add(patience)
	for unknown := math.MaxInt; unknown > 0; {
		if time.Now().After(deadline) {
			t.Fatalf("%d rules are not evaluated after %v", unknown, patience)
		}
		unknown = 0
		a.get(t, "rules", nil, &data)
		for _, g := range data.Groups {
			for _, r := range g.Rules {
				switch r.Health {
				case "unknown":
					unknown++
				case "ok":
				default:
					t.Fatalf("rule %s is %s: %s", r.Name, r.Health, r.LastError)
				}
			}
		}
		if len(data.Groups) == 0 {
			t.Fatal("no rules")
		}
		<-time.After(10 * time.Millisecond)
	}
}
