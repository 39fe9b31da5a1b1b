//go:build linux

package compat

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/hone-go/hone/tool/child"
)

// startNginx starts an nginx in front of a server and returns its address. It passes
// requests on as they come, over up to four connections that it keeps.
func startNginx(t *testing.T, program string, upstream *served) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "apps-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	user := ""
	if os.Getuid() == 0 {
		user = "user root;" // its folder is root's
	}
	config := fmt.Sprintf(`
%s
daemon off; worker_processes 1; pid pid; error_log errors;
events { worker_connections 512; }
http {
	client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
	access_log off;
	client_max_body_size 0;
	upstream app { server %s max_conns=4; keepalive 4; }
	proxy_ssl_verify off; proxy_ssl_protocols TLSv1.2 TLSv1.3;
	server {
		listen %s;
		location / {
			proxy_pass %s://app; proxy_http_version 1.1; proxy_set_header Connection "";
			proxy_request_buffering off; proxy_buffering off;
		}
	}
}`, user, upstream.addr, ln.Addr(), strings.TrimSuffix(upstream.url(""), "://"+upstream.addr))
	if err := os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	// nginx takes a socket over from whoever starts it, as it does when it replaces
	// itself: nobody else can have the port meanwhile.
	socket, err := ln.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	cmd := exec.CommandContext(t.Context(), program, "-p", dir, "-c", "nginx.conf", "-e", "errors")
	cmd.ExtraFiles, cmd.Env = []*os.File{socket}, append(os.Environ(), "NGINX=3;")
	c, err := child.Start(cmd, child.Options{Signal: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Stop()
		if t.Failed() {
			errors, _ := os.ReadFile(filepath.Join(dir, "errors"))
			t.Logf("nginx said %s, and wrote\n%s", c.Said(), errors)
		}
	})
	return ln.Addr().String()
}

// TestNginx has nginx pass 100 mixed requests on over a few connections that it keeps.
// Those that http1 lends to net/http for a chunked upload come back: there are fewer
// connections than loans.
func TestNginx(t *testing.T) {
	program := needs(t, "nginx")
	eachSide(t, withTLS(), func(t *testing.T, on side) {
		back := serve(t, on, &http.Server{Handler: http.HandlerFunc(told)})
		front := &served{addr: startNginx(t, program, back)}
		client := newClient(t, &http.Transport{})
		large := strings.Repeat("0123456789abcdef", 10_000)
		kinds := []func() (*http.Request, string){
			func() (*http.Request, string) { return newRequest(t, "GET", front.url("/get"), nil), "read 0 " },
			func() (*http.Request, string) {
				return newRequest(t, "POST", front.url("/small"), strings.NewReader("small")), "read 5 "
			},
			func() (*http.Request, string) {
				return newRequest(t, "POST", front.url("/large"), strings.NewReader(large)), "read 160000 "
			},
			func() (*http.Request, string) {
				return newRequest(t, "PUT", front.url("/chunked"), io.MultiReader(strings.NewReader(large))), "read 160000 "
			},
		}
		const clients, each = 4, 25
		var asking sync.WaitGroup
		for i := range clients {
			asking.Go(func() {
				for n := range each {
					r, want := kinds[(i+n)%len(kinds)]()
					resp, err := client.Do(r)
					if err != nil {
						t.Error(err)
						return
					}
					got, err := io.ReadAll(resp.Body)
					resp.Body.Close()
					if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(got), want) {
						t.Errorf("%s %s: %s, %q, %v; want %q", r.Method, r.URL.Path, resp.Status, got, err, want)
					}
				}
			})
		}
		asking.Wait()
		if back.http == nil {
			return
		}
		st := back.http.Stats()
		t.Logf("%d connections, %d loans, %d requests on the fast path", st.Accepted, st.Loans, st.Fast)
		if st.Accepted > 8 {
			t.Errorf("nginx has opened %d connections, so they do not last", st.Accepted)
		}
		if st.Loans < clients*each/4 || st.Loans > clients*each { // each chunked upload, no more than all
			t.Errorf("%d loans for %d requests", st.Loans, clients*each)
		}
	})
}

func newRequest(t *testing.T, method, url string, body io.Reader) *http.Request {
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
