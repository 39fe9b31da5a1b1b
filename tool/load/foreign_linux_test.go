package load

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/tool/child"
)

// The generator is for servers that others have written, in other languages. These tests compare
// its counts with theirs. Each test has its own folder and port for the server, which ends with
// the test.

// foreign returns the path of a program of a Debian package. If it is missing the test is skipped,
// or fails if all tests are requested.
func foreign(tb testing.TB, program, of string) string {
	tb.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/" + program) // which may not be in PATH
	}
	switch {
	case err == nil:
		return path
	case testrun.All():
		tb.Fatalf("there is no %s: install %s, or run make deps", program, of)
	}
	tb.Skipf("there is no %s: install %s, or run make deps", program, of)
	panic("unreachable")
}

// startForeign starts a program that runs until the test ends. If the test has failed, its output
// is logged.
func startForeign(tb testing.TB, cmd *exec.Cmd) *child.Child {
	tb.Helper()
	c := must[*child.Child](tb)(child.Start(cmd, child.Options{Signal: true, Grace: patience}))
	tb.Cleanup(func() {
		c.Stop()
		if tb.Failed() {
			tb.Logf("%s said: %s", filepath.Base(cmd.Path), c.Said())
		}
	})
	return c
}

// shortFolder returns a temporary folder whose sockets' paths are short enough.
func shortFolder(tb testing.TB) string {
	tb.Helper()
	dir := must[string](tb)(os.MkdirTemp("", "load"))
	tb.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// nginx is one with a single worker and a folder of its own.
type nginx struct {
	URL string // without a path
	dir string
}

// startNginx starts nginx; server is added to its server block, and files are written to www.
func startNginx(tb testing.TB, server string, files map[string]string) *nginx {
	tb.Helper()
	program := foreign(tb, "nginx", "nginx")
	n := &nginx{dir: shortFolder(tb)}
	if err := os.Mkdir(n.path("www"), 0o755); err != nil {
		tb.Fatal(err)
	}
	for name, content := range files {
		n.write(tb, filepath.Join("www", name), content)
	}
	ln := must[*net.TCPListener](tb)(net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}))
	defer ln.Close()
	n.URL = "http://" + ln.Addr().String()
	n.write(tb, "nginx.conf", fmt.Sprintf(`
%s
daemon off; worker_processes 1; pid pid; error_log errors;
events { worker_connections 2048; }
http {
	client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
	log_format counted '$connection $connection_requests $status $body_bytes_sent'; access_log access counted;
	server { listen %s; root www; %s }
}`, asRoot(), ln.Addr(), server))
	// nginx inherits the socket, as it does when it replaces itself, so that nobody else can take
	// the port meanwhile.
	socket := must[*os.File](tb)(ln.File())
	defer socket.Close()
	cmd := exec.CommandContext(context.Background(), program, "-p", n.dir, "-c", "nginx.conf", "-e", "errors")
	cmd.ExtraFiles, cmd.Env = []*os.File{socket}, append(os.Environ(), "NGINX=3;")
	startForeign(tb, cmd)
	tb.Cleanup(func() { // before it is stopped and the folder removed
		if tb.Failed() {
			tb.Logf("nginx wrote:\n%s", n.read(tb, "errors"))
		}
	})
	return n
}

// asRoot keeps nginx from dropping the privileges that its folder needs.
func asRoot() string {
	if os.Getuid() == 0 {
		return "user root;"
	}
	return ""
}

func (n *nginx) path(name string) string { return filepath.Join(n.dir, name) }

func (n *nginx) write(tb testing.TB, name, content string) {
	tb.Helper()
	if err := os.WriteFile(n.path(name), []byte(content), 0o644); err != nil {
		tb.Fatal(err)
	}
}

// read returns a file of its folder; empty if it does not exist yet.
func (n *nginx) read(tb testing.TB, name string) string {
	tb.Helper()
	b, err := os.ReadFile(n.path(name))
	if err != nil && !os.IsNotExist(err) {
		tb.Fatal(err)
	}
	return string(b)
}

// logged waits until nginx has logged that many requests, and returns a line for each.
func (n *nginx) logged(tb testing.TB, requests int64) []string {
	tb.Helper()
	var log string
	eventually(tb, fmt.Sprintf("nginx has not logged %d requests", requests), func() bool {
		log = n.read(tb, "access")
		return int64(strings.Count(log, "\n")) >= requests
	})
	lines := strings.Split(strings.TrimSuffix(log, "\n"), "\n")
	if int64(len(lines)) != requests {
		tb.Errorf("nginx has logged %d requests, the generator counts %d", len(lines), requests)
	}
	return lines
}
