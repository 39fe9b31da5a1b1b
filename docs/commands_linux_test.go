package docs

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hone-go/hone/internal/testrun"
)

// patience limits the commands of one page.
const patience = 5 * time.Minute

// pages are the guides whose blocks of sh are run, each as one script, with what they need besides Go
// and what is smaller in a test.
var pages = []struct {
	name    string
	slow    bool // only in a run of all tests
	needs   []string
	ports   []string
	smaller []string
	prints  []string
}{
	{
		name: "writing-a-protocol.md", needs: []string{"redis-cli", "redis-benchmark"}, ports: []string{"7002"},
		smaller: []string{"-n 100000", "-n 2000", "-d 2s", "-d 300ms", "./hone-try/hone load", "hone load"},
		prints:  []string{"PONG\nOK\nhello, world\n", "INCR: ", "requests  "},
	},
	{
		name: "../examples/rooms/README.md", ports: []string{"8082", "8083"},
		prints: []string{`{"number":1,"name":"Ada","text":"hello"}`, `{"number":2,"name":"Ben","text":"hello again"}`, `{"number":3,"name":"Cem","text":"hello from frames"}`},
	},
	{
		name: "scale.md", needs: []string{"curl", "sysctl"}, ports: []string{"8080", "7070"},
		smaller: []string{"--idle 20000", "--idle 200", "--idle 5000", "--idle 100", "-d 10s", "-d 300ms", "-d 5s", "-d 300ms", "--rate 1000", "--rate 400"},
		prints:  []string{"200 of 200 connections open at the end", "process_max_fds "},
	},
	{name: "method.md", prints: []string{"descriptors"}},
	{
		name: "from-mqtt.md", needs: []string{"curl", "sha256sum"}, ports: []string{"7100", "7171", "7180"},
		prints: []string{`"seq":3,`, "SEEN\nmeter-7  "},
	},
	{
		name: "torture.md", slow: true, needs: []string{"node", "python3", "redis-server", "haproxy", "nginx"},
		ports:   []string{"8080", "8081", "6380", "8082", "8083", "8084", "7100"},
		smaller: []string{"hone torture ", "hone torture --only segmentation "},
		prints:  []string{"(HTTP, owned (--cmd)): ", "(messages, owned (--cmd)): ", ", 0 fell, 0 not found out"},
	},
}

// A page that says "run this" is right: every block of sh on it, in its order, ends well. Results of
// loads may be INVALID, since the machine may be busy.
func TestCommands(t *testing.T) {
	bin := t.TempDir()
	for _, program := range []string{"tool/cmd/hone", "gateway/cmd/honed"} {
		// Unlike go build, go run links only what has changed.
		out, err := exec.Command("go", "run", "-exec", "cp", "github.com/hone-go/hone/"+program, filepath.Join(bin, filepath.Base(program))).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	builds := cachedBuild
	if testrun.All() {
		builds = ""
	}
	for _, page := range pages {
		t.Run(page.name, func(t *testing.T) {
			t.Parallel()
			if page.slow && !testrun.All() {
				t.Skip("takes half a minute; HONE_TEST_ALL=1 runs it")
			}
			for _, name := range append(page.needs, "bash") {
				if _, err := exec.LookPath(name); err != nil {
					testrun.Lacks(t, name+" (make deps installs what the tests need)")
				}
			}
			script := strings.Join(blocks(t, page.name, "sh"), "")
			if script == "" {
				t.Fatal("the page has no commands")
			}
			for i := 0; i < len(page.smaller); i += 2 {
				if !strings.Contains(script, page.smaller[i]) {
					t.Errorf("the page does not say %q any more", page.smaller[i])
				}
			}
			replace := append(page.smaller, "./hone-try", t.TempDir())
			for _, port := range page.ports {
				_, free, _ := strings.Cut(testrun.FreeAddr(t), ":")
				replace = append(replace, port, free)
			}
			out := run(t, bin, builds+strings.NewReplacer(replace...).Replace(script))
			for _, want := range page.prints {
				if !strings.Contains(out, want) {
					t.Errorf("%q is not printed:\n%s", want, out)
				}
			}
		})
	}
}

// cachedBuild is go build in a page's script: go run keeps what it has linked, unlike go build.
const cachedBuild = `build() {
	if [ "$1" != -o ]; then return 2; fi
	mkdir -p "$2"
	for package in "${@:3}"; do command go run -exec cp "$package" "$2/$(basename "$package")"; done
}
`

// run runs a script as a reader would type it, from the root of the repository. Tests of a page run
// with the others, so here only their command lines are tried.
func run(t *testing.T, bin, script string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", `set -eu
load() { command hone load "$@" || case $? in 3|4) ;; *) return 1 ;; esac; }
build() { command go build "$@"; }
go() { case $1 in build) build "${@:2}" ;; test) command go vet "${@: -1}" ;; *) command go "$@" ;; esac; }
`+regexp.MustCompile(`(?m)^hone load`).ReplaceAllString(script, "load")+"\nwait || true\n")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what a script that failed has left
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, script, out)
	}
	return string(out)
}

// blocks returns the blocks of a language on a page.
func blocks(t *testing.T, page, language string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range strings.Split(string(text), "```"+language+"\n")[1:] {
		code, _, _ := strings.Cut(block, "```")
		all = append(all, code)
	}
	return all
}
