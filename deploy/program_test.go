//go:build unix

package deploy

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/internal/testrun"
)

// release is the version of what build makes, set as in deploy/Dockerfile.
const release = "v1.2.3"

// build builds hone or honed for one test. It uses go run's cached link, because linking
// takes seconds of CPU time and go build does not cache it.
func build(t testing.TB, command string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), filepath.Base(command))
	run(t, root, "go", "run", "-buildvcs=false", "-ldflags=-X 'main.release="+release+"'", "-exec", "cp", command, program)
	return program
}

// program is a hone serve that runs until the test ends.
type program struct {
	Addr, Admin string // as printed by --json
	// Those of honed:
	Listen, HTTP, MQTT []string
	cmd                *exec.Cmd
	ended              chan struct{}
}

// start runs hone with args and --json.
func start(t testing.TB, name string, args ...string) *program {
	t.Helper()
	p := &program{cmd: exec.Command(name, append(args, "--json")...), ended: make(chan struct{})}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stderr = os.Stderr
	dieWithUs(p.cmd)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := make(chan []byte, 1)
	go func() {
		defer close(p.ended)
		in := bufio.NewReader(stdout)
		line, _ := in.ReadBytes('\n')
		said <- line
		io.Copy(io.Discard, in)
		p.cmd.Wait()
	}()
	t.Cleanup(p.stop)
	select {
	case line := <-said:
		if err := json.Unmarshal(line, p); err != nil {
			t.Fatalf("hone %s said %q: %v", strings.Join(args, " "), line, err)
		}
	case <-time.After(patience):
		t.Fatalf("hone %s is not ready after %v", strings.Join(args, " "), patience)
	}
	return p
}

// stop ends the program, unless it has ended.
func (p *program) stop() {
	p.cmd.Process.Kill() // an error means that it has ended
	<-p.ended
}

// TestProbesMatchDrain runs hone with the arguments of the Kubernetes manifest, on
// loopback, and sends its probes before and during a drain.
func TestProbesMatchDrain(t *testing.T) {
	t.Parallel()
	_, c := readDeployment(t, "deployment.yaml")
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	var args []string
	for _, arg := range c.Args {
		args = append(args, strings.NewReplacer("--addr=:7000", "--addr=127.0.0.1:0", "--admin=:7070", "--admin=127.0.0.1:0", "/etc/hone/token", token).Replace(arg))
	}
	p := start(t, build(t, "./tool/cmd/hone"), append(args, "--service=faults")...)
	asked := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	status := func(pr probe) int {
		t.Helper()
		response, err := asked.Get("http://" + p.Admin + pr.HTTPGet.Path)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode
	}
	for _, pr := range []probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
		if got := status(pr); got != 200 {
			t.Errorf("%s answers %d before the drain", pr.HTTPGet.Path, got)
		}
	}
	response, err := asked.Get("http://" + p.Admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	metrics, _ := io.ReadAll(response.Body)
	response.Body.Close()
	if want := `version="` + release + `"} 1`; !strings.Contains(string(metrics), want) {
		t.Errorf("hone_info does not say %s", want)
	}
	client := &framed.Mux{Addr: p.Addr}
	defer client.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	defer calls.Wait()
	defer cancel()
	calls.Go(func() { client.Call(ctx, nil, []byte("late 1m")) }) // keeps the drain waiting
	await(t, "the server owes a reply", func() bool {
		response, err := asked.Get("http://" + p.Admin + "/stats")
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		var stats struct {
			Owed int `json:"replies_owed"`
		}
		return json.NewDecoder(response.Body).Decode(&stats) == nil && stats.Owed == 1
	})
	p.cmd.Process.Signal(syscall.SIGTERM)
	await(t, "a draining server is not ready", func() bool { return status(c.ReadinessProbe) == 503 })
	if got := status(c.LivenessProbe); got != 200 {
		t.Errorf("%s answers %d in the drain: Kubernetes would kill the server", c.LivenessProbe.HTTPGet.Path, got)
	}
}

// TestHonedMatchesManifest runs honed with the arguments of its Kubernetes manifest, on
// loopback, and sends the requests of the probes and the PodMonitor.
func TestHonedMatchesManifest(t *testing.T) {
	t.Parallel()
	_, c := readDeployment(t, "honed/statefulset.yaml")
	dir := t.TempDir()
	const secret = "0123456789abcdef"
	for name, content := range map[string]string{"token": secret + "\n", "tokens": fmt.Sprintf("device-1 sha256:%x\n", sha256.Sum256([]byte(secret)))} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var args []string
	for _, arg := range c.Args {
		args = append(args, strings.NewReplacer("=:7100", "=127.0.0.1:0", "=:7171", "=127.0.0.1:0", "/etc/honed/admin", dir, "/etc/honed/clients", dir, "/data/log", dir+"/log").Replace(arg))
	}
	program := build(t, "./gateway/cmd/honed")
	_, line, _ := strings.Cut(text(t, "systemd", "honed.service"), "\nExecStart=")
	line, _, _ = strings.Cut(line, "\n")
	line = strings.NewReplacer("127.0.0.1:7100", "127.0.0.1:0", "127.0.0.1:7171", "127.0.0.1:0", "%S", dir, "%t", runtimeFolder(t, "honed")).Replace(line)
	start(t, program, strings.Fields(line)[1:]...).stop() // the unit's arguments work too
	p := start(t, program, args...)
	asked := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	ask := func(path, token string) (int, string) {
		t.Helper()
		r, err := http.NewRequest("GET", "http://"+p.Admin+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := asked.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		return response.StatusCode, string(body)
	}
	for _, pr := range []probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
		if code, body := ask(pr.HTTPGet.Path, ""); code != 200 {
			t.Errorf("%s answers %d %s", pr.HTTPGet.Path, code, body)
		}
	}
	if _, body := ask("/metrics", ""); !strings.Contains(body, `service="honed",version="`+release+`"} 1`) || !strings.Contains(body, "\nhone_connections_limit ") {
		t.Error("/metrics does not say what runs, or its limits")
	}
	if code, _ := ask("/gateway/metrics", ""); code != 401 {
		t.Errorf("/gateway/metrics answers %d without the token", code)
	}
	if code, body := ask("/gateway/metrics", secret); code != 200 || !strings.Contains(body, "\nhoned_log_full 0\n") {
		t.Errorf("/gateway/metrics answers %d: %s", code, body)
	}
}

// await polls until a condition that no event announces is true.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not after %v: %s", patience, what)
		}
	}
}

// TestSocketActivation has systemd's activator pass a socket to hone, with the arguments
// of hone.service.
func TestSocketActivation(t *testing.T) {
	t.Parallel()
	activate := needs(t, "systemd-socket-activate")
	_, exec, ok := strings.Cut(text(t, "systemd", "hone.service"), "\nExecStart=")
	if !ok {
		t.Fatal("hone.service has no ExecStart")
	}
	line, _, _ := strings.Cut(exec, "\n")
	args := strings.Fields(strings.NewReplacer("127.0.0.1:7070", "127.0.0.1:0", "%t", runtimeFolder(t, "hone")).Replace(line))[1:]
	socket := filepath.Join(t.TempDir(), "hone.sock")
	daemon(t, `Listening on (\S+) as 3`, activate, append([]string{"--fdname=hone", "--listen=" + socket, build(t, "./tool/cmd/hone")}, args...)...)
	client := &framed.Mux{Addr: "unix:" + socket}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if reply, err := client.Call(ctx, nil, []byte("hello")); err != nil {
		t.Errorf("answered %q, %v", reply, err)
	}
}

// runtimeFolder makes RuntimeDirectory of a unit, in a folder that it returns.
func runtimeFolder(t *testing.T, name string) string {
	t.Helper()
	dir := testrun.SocketFolder(t)
	if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestUp runs deploy/up twice in a copy of the folder, with a fake docker that records
// its calls. The first time there is no network.
func TestUp(t *testing.T) {
	bash := needs(t, "bash")
	dir := t.TempDir()
	script := filepath.Join(dir, "deploy", "up")
	noted := filepath.Join(dir, "noted")
	for path, content := range map[string]string{
		script:                              text(t, "up"),
		filepath.Join(dir, "bin", "docker"): "#!/bin/sh\necho \"$* version=$HONE_VERSION user=$HONE_USER password=$GRAFANA_PASSWORD\" >>" + noted + "\n",
		filepath.Join(dir, "bin", "curl"): "#!/bin/sh\n[ -e " + noted + ".online ] || exit 7\n" +
			`while [ "$1" != -o ]; do shift; done; echo '"${DS_PROMETHEUS}" "${datasource}"' >"$2"` + "\n",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", filepath.Join(dir, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
	var secrets [2][2]string
	for i := range secrets {
		out := run(t, dir, bash, script)
		if offline := strings.Contains(out, "could not download dashboard 1860; import it"); !strings.Contains(out, "http://127.0.0.1:3000") || offline != (i == 0) {
			t.Errorf("run %d of deploy/up says\n%s", i, out)
		}
		if err := os.WriteFile(noted+".online", nil, 0o600); err != nil {
			t.Fatal(err)
		}
		for j, name := range []string{"grafana-password", "admin-token"} {
			secrets[i][j] = secret(t, filepath.Join(dir, "deploy", "secrets", name))
		}
	}
	if secrets[0] != secrets[1] || secrets[0][0] == secrets[0][1] {
		t.Errorf("secrets %q of the first run and %q of the second", secrets[0], secrets[1])
	}
	b, err := os.ReadFile(filepath.Join(dir, "deploy", "downloaded", "node-exporter.json"))
	if want := "\"prometheus\" \"${datasource}\"\n"; err != nil || string(b) != want {
		t.Errorf("dashboard 1860 became %q (%v), want %q", b, err, want)
	}
	b, err = os.ReadFile(noted)
	if err != nil {
		t.Fatal(err)
	}
	if want := "password=" + secrets[0][0] + "\n"; strings.Count(string(b), "compose up --detach --build version=unknown user=") != 2 || !strings.Contains(string(b), want) {
		t.Errorf("docker was called with\n%s", b)
	}
	if strings.Contains(string(b), "user=0:") {
		t.Errorf("hone would run as root:\n%s", b)
	}
}

// secret reads a secret, and checks that only its owner can.
func secret(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 || len(b) != 32 || strings.Trim(string(b), "0123456789abcdef") != "" {
		t.Errorf("%s has mode %v and %d characters", path, info.Mode().Perm(), len(b))
	}
	return string(b)
}
