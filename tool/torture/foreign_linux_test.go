package torture

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/tool/child"
)

// nginxProgram returns where nginx is.
func nginxProgram(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("nginx")
	if err != nil {
		program, err = exec.LookPath("/usr/sbin/nginx") // which may not be in PATH
	}
	if err != nil {
		testrun.Lacks(t, "there is no nginx: install it, or run make deps")
	}
	return program
}

// nginxVersion returns what nginx says of its version.
func nginxVersion(t *testing.T) string {
	t.Helper()
	version, err := exec.CommandContext(context.Background(), nginxProgram(t), "-v").CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(version))
}

// startNginx starts an nginx that answers every request with 200, and returns its URL.
func startNginx(t *testing.T) string {
	t.Helper()
	program := nginxProgram(t)
	dir, err := os.MkdirTemp("", "torture")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	ln := listen(t).(*net.TCPListener)
	defer ln.Close()
	user := ""
	if os.Getuid() == 0 {
		user = "user root;" // its folder is root's
	}
	config := fmt.Sprintf(`%s
daemon off; worker_processes 1; pid pid; error_log errors;
events { worker_connections 4096; }
http {
	client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
	access_log off;
	server { listen %s; location / { return 200 "served $uri"; } }
}`, user, ln.Addr())
	if err := os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	// nginx inherits the socket, as it does when it replaces itself, so that nobody else can take
	// the port meanwhile.
	socket, err := ln.File()
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	cmd := exec.CommandContext(context.Background(), program, "-p", dir, "-c", "nginx.conf", "-e", "errors")
	cmd.ExtraFiles, cmd.Env = []*os.File{socket}, append(os.Environ(), "NGINX=3;")
	running, err := child.Start(cmd, child.Options{Signal: true, Grace: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { running.Stop() })
	return "http://" + ln.Addr().String()
}
