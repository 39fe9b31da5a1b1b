package deploy

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestReload starts the units' processes as systemd does and reloads them: the new process becomes the main one, and the
// old one ends. One that cannot serve makes the reload fail, and the old one serves on.
func TestReload(t *testing.T) {
	t.Parallel()
	for name, command := range map[string]string{"hone": "./tool/cmd/hone", "honed": "./gateway/cmd/honed"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			unit, dir := text(t, "systemd", name+".service"), runtimeFolder(t, name)
			m, program := &manager{t: t, dir: dir}, build(t, command)
			m.listen()
			filled := func(setting string) string {
				line := regexp.MustCompile(`(?m)^` + setting + `=(.*)$`).FindStringSubmatch(unit)
				if line == nil {
					t.Fatalf("%s.service has no %s", name, setting)
				}
				return strings.NewReplacer("/usr/local/bin/"+name, program, "%t", dir, "%S", dir,
					"127.0.0.1:7070", "unix:"+dir+"/admin", "127.0.0.1:7100", "127.0.0.1:0", "127.0.0.1:7171", "unix:"+dir+"/admin").Replace(line[1])
			}
			begin, reload := filled("ExecStart"), filled("ExecReload")
			old := m.run(begin)
			if err := old.Start(); err != nil {
				t.Fatal(err)
			}
			first := m.main()
			again, ok := strings.CutSuffix(strings.TrimPrefix(reload, "/bin/sh -c '"), "'")
			if first != old.Process.Pid || !ok {
				t.Fatalf("the main process is %d, want %d; reload is %s", first, old.Process.Pid, reload)
			}
			if out, err := m.run(strings.Replace(again, "--log-format json", "--log-format none", 1)).CombinedOutput(); err == nil {
				t.Errorf("a reload that cannot serve succeeds: %s", out)
			}
			if err := m.run(again).Run(); err != nil {
				t.Fatalf("reload: %v", err)
			}
			next := m.main()
			for next == first {
				next = m.main()
			}
			if err := old.Wait(); err != nil {
				t.Errorf("the old process: %v", err)
			}
			conn, err := net.Dial("unix", filepath.Join(dir, "admin"))
			if err != nil {
				t.Error(err)
			} else {
				conn.Close()
			}
			if p, err := os.FindProcess(next); err == nil {
				p.Kill()
			}
		})
	}
}

// manager is what of systemd the units need.
type manager struct {
	t      *testing.T
	dir    string
	notify *net.UnixConn
	socket *os.File // of hone.socket
}

func (m *manager) listen() {
	var err error
	if m.notify, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(m.dir, "notify"), Net: "unixgram"}); err != nil {
		m.t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		m.socket, err = ln.(*net.TCPListener).File()
		ln.Close()
	}
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() {
		m.notify.Close()
		m.socket.Close()
	})
}

// run prepares a command line. Only the first process has the socket.
func (m *manager) run(line string) *exec.Cmd {
	cmd := exec.Command("/bin/sh", "-c", line)
	if !strings.HasPrefix(line, "(") {
		cmd.Args[2] = "LISTEN_FDS=1 LISTEN_PID=$$ exec " + line
		cmd.ExtraFiles = []*os.File{m.socket}
		dieWithUs(cmd)
	}
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+filepath.Join(m.dir, "notify"))
	return cmd
}

// main returns the main process of which the next message tells.
func (m *manager) main() (pid int) {
	m.t.Helper()
	m.notify.SetReadDeadline(time.Now().Add(patience))
	p := make([]byte, 1000)
	n, err := m.notify.Read(p)
	if _, scanned := fmt.Sscanf(string(p[:n]), "READY=1\nMAINPID=%d", &pid); err != nil || scanned != nil {
		m.t.Fatalf("%q, %v", p[:n], err)
	}
	return pid
}
