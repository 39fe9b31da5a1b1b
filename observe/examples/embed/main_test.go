package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// patience limits everything that a test waits for.
const patience = 20 * time.Second

// TestMain checks that the embedded admin side leaves no goroutines behind.
func TestMain(m *testing.M) {
	before := runtime.NumGoroutine()
	code := m.Run()
	for deadline := time.Now().Add(patience); code == 0 && runtime.NumGoroutine() > before; <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			fmt.Fprintln(os.Stderr, "goroutines outlive the tests")
			code = 1
		}
	}
	os.Exit(code)
}

// program is the example, running.
type program struct {
	t                *testing.T
	service, private string // URLs that end with a slash
	client           http.Client
	stop             context.CancelFunc
	ended            chan error
}

// start runs the example until the test ends.
func start(t *testing.T, o options, handler http.Handler) *program {
	t.Helper()
	o.addr, o.admin = "127.0.0.1:0", "127.0.0.1:0"
	ctx, stop := context.WithCancel(t.Context())
	transport := new(http.Transport)
	p := &program{t: t, client: http.Client{Transport: transport, Timeout: patience}, stop: stop, ended: make(chan error, 1)}
	stdout, w := io.Pipe()
	go func() {
		err := run(ctx, o, handler, w, io.Discard)
		w.Close()
		p.ended <- err
	}()
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if n, _ := fmt.Sscanf(strings.ReplaceAll(line, ",", " "), "serving on %s admin side on %s", &p.service, &p.private); n != 2 {
		t.Fatalf("the first line is %q, %v", line, err)
	}
	t.Cleanup(func() {
		stop()
		if err := <-p.ended; err != nil {
			t.Errorf("run: %v", err)
		}
		transport.CloseIdleConnections()
	})
	return p
}

// get sends a request, with another host name or a token if these are not empty.
func (p *program) get(url, host, token string) (int, string) {
	p.t.Helper()
	r, err := http.NewRequest("GET", url, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	if host != "" {
		r.Host = host
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := p.client.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func TestBothSides(t *testing.T) {
	p := start(t, options{hosts: []string{"service.example"}}, service())
	if code, body := p.get(p.service+"hello/Ann", "", ""); code != 200 || body != "Hello, Ann!\n" {
		t.Errorf("the service answers %d %q", code, body)
	}
	if code, _ := p.get(p.service+"metrics", "", ""); code != 404 {
		t.Errorf("the service answers /metrics with %d: the admin side is for operators", code)
	}
	_, metrics := p.get(p.private+"metrics", "", "")
	for _, want := range []string{
		`hone_info{engine=`, `service="embed",version="v1.0.0"} 1`, "\nhone_http_fast_requests_total 2\n",
		"\nhone_requests_received_total 2\n", "\nhone_handler_duration_seconds_count ", "\ngo_goroutines ",
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("%q is missing in /metrics", want)
		}
	}
	if code, body := p.get(p.private, "", ""); code != 200 || !strings.Contains(body, `href="debug/pprof/"`) {
		t.Errorf("the index is %d %q", code, body)
	}
	for host, want := range map[string]int{"rebind.example": 403, "service.example": 200, "localhost": 200} {
		if code, body := p.get(p.private+"stats", host, ""); code != want || code == 403 && !strings.Contains(body, "Admin.Hosts") {
			t.Errorf("under the name %s: %d %q, want %d", host, code, body, want)
		}
	}
}

func TestToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, options{tokenFile: file}, service())
	for token, want := range map[string]int{"": 401, "another": 401, "0123456789abcdef": 200} {
		if code, _ := p.get(p.private, "", token); code != want {
			t.Errorf("with the token %q: %d, want %d", token, code, want)
		}
	}
}

// TestDrain ends the program while a request is in progress: the request is answered, and
// meanwhile /healthz reports the drain.
func TestDrain(t *testing.T) {
	began, finish := make(chan struct{}), make(chan struct{})
	p := start(t, options{}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(began)
		<-finish
		io.WriteString(w, "done")
	}))
	if code, body := p.get(p.private+"healthz", "", ""); code != 200 {
		t.Errorf("before the drain /healthz says %d %q", code, body)
	}
	answer := make(chan string, 1)
	go func() {
		response, err := p.client.Get(p.service)
		if err != nil {
			answer <- err.Error()
			return
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		answer <- string(body)
	}()
	<-began
	p.stop()
	for deadline := time.Now().Add(patience); ; <-time.After(time.Millisecond) {
		if code, _ := p.get(p.private+"healthz", "", ""); code == 503 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("/healthz does not say that the server drains")
		}
	}
	close(finish)
	if body := <-answer; body != "done" {
		t.Errorf("the request in progress was answered %q", body)
	}
}

func TestRefusals(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, o := range map[string]options{
		"-addr":        {addr: "nowhere", admin: "127.0.0.1:0"},
		"-admin":       {addr: "127.0.0.1:0", admin: "nowhere"},
		"set a token":  {addr: "127.0.0.1:0", admin: "0.0.0.0:0"},
		"openssl rand": {addr: "127.0.0.1:0", admin: "127.0.0.1:0", tokenFile: empty},
		"no such file": {addr: "127.0.0.1:0", admin: "127.0.0.1:0", tokenFile: empty + "er"},
	} {
		err := run(t.Context(), o, service(), io.Discard, io.Discard)
		if said := fmt.Sprint(err); err == nil || !strings.Contains(said, want) {
			t.Errorf("%+v: %s, want an error that says %q", o, said, want)
		}
	}
}
