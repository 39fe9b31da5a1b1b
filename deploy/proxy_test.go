package deploy

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/observe"
)

// TestAdminBehindNginx has a real nginx serve the admin side as in docs/operations.md, to
// a client with the token and to one without, and without a token at all.
func TestAdminBehindNginx(t *testing.T) {
	t.Parallel()
	nginx := needs(t, "nginx")
	const secret = "0123456789abcdef"
	front := func(a *observe.Admin) func(path, token string) (int, string) {
		a.Stats = func() engine.Stats { return engine.Stats{Engine: "buffered"} }
		a.Hosts = []string{"hone.monitoring.svc"}
		ln := loopback(t)
		served := make(chan error, 1)
		go func() { served <- a.Serve(ln) }()
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if err := a.Shutdown(ctx); err != nil {
				t.Error(err)
			}
			<-served
		})
		return throughNginx(t, nginx, ln.Addr().String())
	}
	guarded, open := front(&observe.Admin{Token: secret}), front(&observe.Admin{})
	for _, c := range []struct {
		ask         func(path, token string) (int, string)
		path, token string
		want        int
		says        string
	}{
		{guarded, "/admin/healthz", "", 200, "ok"},
		{guarded, "/admin/", "", 401, "token"},
		{guarded, "/admin/metrics", "", 401, "token"},
		{guarded, "/admin/", secret, 200, `<a href="metrics">`},
		{guarded, "/admin/metrics", secret, 200, "hone_info{"},
		{guarded, "/admin/debug/pprof/heap?debug=1", secret, 200, "heap profile"},
		{open, "/admin/healthz", "", 200, "ok"},
		{open, "/admin/metrics", "", 403, "through a proxy"},
		{open, "/admin/debug/pprof/heap", "", 403, "through a proxy"},
	} {
		if code, body := c.ask(c.path, c.token); code != c.want || !strings.Contains(body, c.says) {
			t.Errorf("GET %s with the token %q: %d %.200q, want %d and %q", c.path, c.token, code, body, c.want, c.says)
		}
	}
}

// throughNginx starts an nginx with the manual's location in front of admin, on a socket
// file.
func throughNginx(t *testing.T, nginx, admin string) func(path, token string) (int, string) {
	t.Helper()
	manual, err := os.ReadFile(filepath.Join(root, "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	location := regexp.MustCompile("(?s)```nginx\n(.*?)```").FindSubmatch(manual)
	if location == nil || !strings.Contains(string(location[1]), "http://127.0.0.1:7070/") {
		t.Fatal("docs/operations.md has no location for nginx")
	}
	dir, err := os.MkdirTemp("", "nginx") // t.TempDir's name is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "front")
	config := strings.NewReplacer("DIR", dir, "LOCATION", strings.Replace(string(location[1]), "127.0.0.1:7070", admin, 1)).Replace(`
daemon off;
pid DIR/pid;
error_log stderr notice;
events {}
http {
	access_log off;
	client_body_temp_path DIR/body;
	proxy_temp_path DIR/proxy;
	fastcgi_temp_path DIR/fastcgi;
	uwsgi_temp_path DIR/uwsgi;
	scgi_temp_path DIR/scgi;
	server {
		listen unix:DIR/front;
		LOCATION
	}
}
`)
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	daemon(t, `(start worker process )`, nginx, "-e", "stderr", "-c", file)
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	client := http.Client{Transport: transport, Timeout: patience}
	return func(path, token string) (int, string) {
		t.Helper()
		r, err := http.NewRequest("GET", "http://front.example"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(body)
	}
}
