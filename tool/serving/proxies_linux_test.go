package serving

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/http1"
	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/websocket"
)

const proxyPatience = 20 * time.Second

// The configurations in docs/tls.md work: requests, WebSockets and frames get through, and
// their server sees the client's address, whatever headers the client makes up.
func TestProxies(t *testing.T) {
	t.Parallel()
	nginx, haproxy := configurations(t, "nginx"), configurations(t, "haproxy")
	if len(nginx) != 2 || len(haproxy) != 2 {
		t.Fatalf("docs/tls.md has %d configurations of nginx and %d of HAProxy", len(nginx), len(haproxy))
	}
	t.Run("nginx", func(t *testing.T) { behindProxy(t, startNginx, nginx[0]) })
	t.Run("HAProxy", func(t *testing.T) { behindProxy(t, startHAProxy, haproxy[0]) })
	t.Run("nginx, TCP", func(t *testing.T) { framesBehindProxy(t, startNginxForTCP, nginx[1]) })
	t.Run("HAProxy, TCP", func(t *testing.T) { framesBehindProxy(t, startHAProxy, haproxy[1]) })
}

// configurations returns the blocks of docs/tls.md in a language.
func configurations(t *testing.T, language string) (all []string) {
	page, err := os.ReadFile("../../docs/tls.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range strings.Split(string(page), "```"+language+"\n")[1:] {
		text, _, _ := strings.Cut(block, "```")
		all = append(all, text)
	}
	return all
}

// The proxies are 127.0.0.1; clients come from another address of this machine.
var (
	proxyHosts = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	clientHost = net.IPv4(127, 0, 0, 9)
)

// throughProxy connects to a proxy that may still be starting.
func throughProxy(t *testing.T, addr string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: clientHost}}
	for until := time.Now().Add(proxyPatience); ; <-time.After(5 * time.Millisecond) {
		nc, err := d.Dial("tcp", addr)
		if err == nil {
			nc.SetDeadline(time.Now().Add(proxyPatience))
			t.Cleanup(func() { nc.Close() })
			return nc
		}
		if time.Now().After(until) {
			t.Fatal(err)
		}
	}
}

// start starts a proxy with its configuration and returns the address at which it listens, for
// a server at backend.
type startProxy func(t *testing.T, configuration, backend string) (addr string)

// placed replaces the documented addresses.
func placed(t *testing.T, configuration, backend string) (text, addr string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr = ln.Addr().String()
	ln.Close() // a moment later the proxy takes it
	return strings.NewReplacer("127.0.0.1:8080", addr, "127.0.0.1:8081", backend).Replace(configuration), addr
}

func startNginx(t *testing.T, configuration, backend string) (addr string) {
	text, addr := placed(t, configuration, backend)
	runNginx(t, "http { access_log off;\n"+
		"client_body_temp_path a; proxy_temp_path b; fastcgi_temp_path c; uwsgi_temp_path d; scgi_temp_path e;\n"+text+"}")
	return addr
}

// startNginxForTCP needs the module that Debian packages separately.
func startNginxForTCP(t *testing.T, configuration, backend string) (addr string) {
	const module = "/usr/lib/nginx/modules/ngx_stream_module.so"
	if _, err := os.Stat(module); err != nil {
		testrun.Lacks(t, "libnginx-mod-stream")
	}
	text, addr := placed(t, configuration, backend)
	runNginx(t, text, "load_module "+module+";")
	return addr
}

func runNginx(t *testing.T, configuration string, before ...string) {
	root := ""
	if os.Getuid() == 0 {
		root = "user root;"
	}
	runProxy(t, "nginx", strings.Join(before, "")+root+" daemon off; worker_processes 1; pid pid; error_log stderr; events { worker_connections 512; }\n"+configuration,
		func(dir, file string) []string { return []string{"-p", dir, "-c", file, "-e", "stderr"} })
}

func startHAProxy(t *testing.T, configuration, backend string) (addr string) {
	text, addr := placed(t, configuration, backend)
	runProxy(t, "haproxy", text, func(_, file string) []string { return []string{"-db", "-q", "-f", file} })
	return addr
}

func runProxy(t *testing.T, name, configuration string, args func(dir, file string) []string) {
	t.Helper()
	program, err := exec.LookPath(name)
	if err != nil {
		testrun.Lacks(t, name)
		return
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "configuration")
	if err := os.WriteFile(file, []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	var output strings.Builder
	cmd := exec.Command(program, args(dir, file)...)
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
		if t.Failed() {
			t.Logf("%s wrote:\n%s", name, &output)
		}
	})
}

// serveBehind serves until the test ends.
func serveBehind(t *testing.T, s interface {
	Serve(net.Listener) error
	Close() error
}) (addr string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		s.Close()
		<-served
	})
	return ln.Addr().String()
}

func behindProxy(t *testing.T, start startProxy, configuration string) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.RemoteAddr) })
	sockets := &websocket.Upgrader{
		Open:    func(c websocket.Conn, r *http.Request) error { return c.Text([]byte(r.RemoteAddr)) },
		Message: func(_ websocket.Call, dst, msg []byte) ([]byte, error) { return append(dst, msg...), nil },
		Origins: func(*http.Request) bool { return true },
	}
	mux.Handle("/ws", sockets)
	s := &http1.Server{Handler: mux, Limits: engine.Limits{ConnsPerAddress: 1}, Forwarded: http1.Forwarded{Header: "X-Forwarded-For", Proxies: proxyHosts}}
	addr := start(t, configuration, serveBehind(t, s))
	client := clientHost.String() + ":0"

	seed := rand.Uint64()
	d := rand.New(rand.NewPCG(seed, 0))
	parts := []string{"10.0.0.1", "127.0.0.1", "[2001:db8::1]:5", "for=10.0.0.2", `"`, ",", ", ", ";", " ", "unknown", "_x", "%", "é"}
	nc := throughProxy(t, addr)
	in := bufio.NewReader(nc)
	for i := range testrun.Sized(300, 50_000) {
		forged := func() (text string) {
			for range d.IntN(6) {
				text += parts[d.IntN(len(parts))]
			}
			return text
		}
		nc.SetDeadline(time.Now().Add(proxyPatience))
		fmt.Fprintf(nc, "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: %s\r\nForwarded: %s\r\nX-Real-IP: 10.0.0.3\r\n\r\n", forged(), forged())
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("seed %d, request %d: %v", seed, i, err)
		}
		body, err := io.ReadAll(resp.Body)
		if resp.StatusCode != 200 || err != nil || string(body) != client {
			t.Fatalf("seed %d, request %d: status %d, seen from %q (%v), want %s", seed, i, resp.StatusCode, body, err, client)
		}
		if resp.Close { // nginx ends connections after a thousand requests
			nc.Close()
			nc = throughProxy(t, addr)
			in = bufio.NewReader(nc)
		}
	}

	ctx, cancel := context.WithTimeout(t.Context(), proxyPatience)
	defer cancel()
	c, err := websocket.Dial(ctx, "ws://"+addr+"/ws", websocket.Options{
		Header: http.Header{"X-Forwarded-For": {"10.0.0.1"}},
		Dial:   func(context.Context, string, string) (net.Conn, error) { return throughProxy(t, addr), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(websocket.NormalClosure, "")
	if _, msg, err := c.Read(ctx, nil); err != nil || string(msg) != client {
		t.Errorf("the WebSocket is seen from %q (%v), want %s", msg, err, client)
	}
	if err := c.Write(ctx, websocket.Text, []byte("hello")); err != nil {
		t.Error(err)
	}
	if _, msg, err := c.Read(ctx, nil); err != nil || string(msg) != "hello" {
		t.Errorf("echoed %q, %v", msg, err)
	}
	if n := s.Stats().Ended[engine.TooManyPerAddress]; n > 0 {
		t.Errorf("%d of the proxy's connections were refused", n)
	}
}

func framesBehindProxy(t *testing.T, start startProxy, configuration string) {
	t.Parallel()
	s := &framed.Server{TrustedProxies: proxyHosts, Handler: framed.HandlerFunc(func(c framed.Call, dst, _ []byte) ([]byte, error) {
		return append(dst, c.Conn().RemoteAddr().String()...), nil
	})}
	addr := start(t, configuration, serveBehind(t, s))
	ctx, cancel := context.WithTimeout(t.Context(), proxyPatience)
	defer cancel()
	for range 20 {
		nc := throughProxy(t, addr)
		c := framed.NewClient(nc, framed.ClientOptions{})
		got, err := c.Call(ctx, nil, []byte("who am I?"))
		if want := nc.LocalAddr().String(); err != nil || string(got) != want {
			t.Errorf("seen from %q (%v), want %s", got, err, want)
		}
		c.Close()
	}

	// A client's own header is data behind the proxy's: no valid frame.
	forged := throughProxy(t, addr)
	fmt.Fprintf(forged, "PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n")
	for n, err := 0, error(nil); err == nil; {
		n, err = forged.Read(make([]byte, 512))
		if errors.Is(err, os.ErrDeadlineExceeded) || n > 64 {
			t.Errorf("a client's PROXY header was not refused: %d bytes, %v", n, err)
		}
	}
}
