// Package fleet builds the server programs, runs each in a process of its own and
// reads what the system knows of it. Linux only.
package fleet

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hone-go/hone/bench/service"
	"github.com/hone-go/hone/tool/child"
)

// Entry is one server of the comparison: a program, and how it is to be run.
type Entry struct {
	Name    string `json:"name"`
	Program string `json:"program"` // a folder of bench/servers
	Engine  string `json:"engine"`  // its --engine; empty: the program's default
	Module  string `json:"module"`  // whose code moves the bytes
	Version string `json:"version"` // of that module, or of Go; filled in by Build
	Extra   bool   `json:"extra"`   // only where handlers sleep, unless it was chosen
	// ParsesNothing says that a server of HTTP only looks where requests end.
	ParsesNothing bool `json:"parses_nothing,omitempty"`
}

// Ours reports whether the server is hone's.
func (e Entry) Ours() bool {
	return slices.Contains([]string{"hone", "honed", "http1", "ws"}, e.Program)
}

// All are the servers, the standard library first.
func All() []Entry {
	gnet := Entry{Name: "gnet", Program: "gnet", Module: "github.com/panjf2000/gnet/v2", Engine: "loop"}
	pool := gnet
	pool.Name, pool.Engine, pool.Extra = "gnet-pool", "pool", true
	all := []Entry{
		{Name: "net", Program: "netbufio", Module: "net and bufio"},
		gnet, pool,
		{Name: "netpoll", Program: "netpoll", Module: "github.com/cloudwego/netpoll"},
		{Name: "nbio", Program: "nbio", Module: "github.com/lesismal/nbio"},
		{Name: "evio", Program: "evio", Module: "github.com/tidwall/evio"},
	}
	for _, engine := range []string{"buffered", "events"} {
		all = append(all, Entry{Name: "hone-" + engine, Program: "hone", Engine: engine, Module: "github.com/hone-go/hone"})
	}
	for _, engine := range []string{"events-inline", "events-offload"} {
		all = append(all, Entry{Name: "hone-" + engine, Program: "hone", Engine: engine, Module: "github.com/hone-go/hone", Extra: true})
	}
	return all
}

// HTTP are the servers of HTTP, the standard library first.
func HTTP() []Entry {
	return []Entry{
		{Name: "net/http", Program: "nethttp", Module: "net/http"},
		{Name: "fasthttp", Program: "fasthttp", Module: "github.com/valyala/fasthttp"},
		{Name: "nbio", Program: "nbhttp", Module: "github.com/lesismal/nbio"},
		{Name: "gnet", Program: "gnethttp", Module: "github.com/panjf2000/gnet/v2", ParsesNothing: true},
		{Name: "http1-events", Program: "http1", Engine: "events", Module: "github.com/hone-go/hone"},
	}
}

// WebSocket are the servers of WebSocket.
func WebSocket() []Entry {
	return []Entry{
		{Name: "gorilla", Program: "wsgorilla", Module: "github.com/gorilla/websocket"},
		{Name: "coder", Program: "wscoder", Module: "github.com/coder/websocket"},
		{Name: "gws", Program: "wsgws", Module: "github.com/lxzan/gws"},
		{Name: "gobwas", Program: "wsgobwas", Module: "github.com/gobwas/ws"},
		{Name: "nbio", Program: "wsnbio", Module: "github.com/lesismal/nbio"},
		{Name: "hone-events", Program: "ws", Engine: "events", Module: "github.com/hone-go/hone"},
	}
}

// Choose returns the entries of those names, in the order of all, no longer
// Extra; all of them when there are no names.
func Choose(all []Entry, names []string) ([]Entry, error) {
	if len(names) == 0 {
		return all, nil
	}
	var known []string
	var chosen []Entry
	for _, e := range all {
		known = append(known, e.Name)
		if slices.Contains(names, e.Name) {
			e.Extra = false
			chosen = append(chosen, e)
		}
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("there is no server %q; use some of %s", name, strings.Join(known, ","))
		}
	}
	return chosen, nil
}

// Build compiles the entries' programs into dir, and fills in their versions.
// module is the folder of the module bench.
func Build(ctx context.Context, module, dir string, entries []Entry) error {
	var packages []string
	for _, e := range entries {
		if pkg := "./servers/" + e.Program; !slices.Contains(packages, pkg) {
			packages = append(packages, pkg)
		}
	}
	if err := Compile(ctx, module, dir, "", packages...); err != nil {
		return err
	}
	for i := range entries {
		e := &entries[i]
		info, err := buildinfo.ReadFile(filepath.Join(dir, e.Program))
		if err != nil {
			return err
		}
		for _, dep := range info.Deps {
			if dep.Path == e.Module && dep.Replace == nil && dep.Version != "(devel)" {
				e.Version = dep.Version
			}
		}
		if e.Program == "netbufio" || e.Program == "nethttp" {
			e.Version = info.GoVersion
		}
	}
	return nil
}

// Module is the folder of the module bench, from wherever in the repository the program
// is run.
func Module(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/hone-go/hone/bench").Output()
	if err != nil {
		return "", fmt.Errorf("cannot find the module bench (%w); run this inside the repository", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Compile compiles packages of the module bench into dir. hone is a folder with another
// revision of the library, which the same programs then use; empty: the one beside bench.
func Compile(ctx context.Context, module, dir, hone string, packages ...string) error {
	run := func(args ...string) error {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir = module
		cmd.Env = append(cmd.Environ(), "GOWORK=off") // a workspace may choose other versions than go.mod
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
		}
		return nil
	}
	args := []string{"build", "-trimpath", "-o", dir + string(filepath.Separator)} // panics are stored
	if hone != "" {
		own, err := os.MkdirTemp("", "hone-bench-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(own)
		file := filepath.Join(own, "go.mod")
		for _, name := range []string{"go.mod", "go.sum"} {
			text, err := os.ReadFile(filepath.Join(module, name))
			if err == nil {
				err = os.WriteFile(filepath.Join(own, name), text, 0o600)
			}
			if err != nil {
				return err
			}
		}
		if err := run("mod", "edit", "-replace", "github.com/hone-go/hone="+hone, file); err != nil {
			return err
		}
		args = append(args, "-modfile", file)
	}
	return run(append(args, packages...)...)
}

// How is the way in which a server is run.
type How struct {
	CPU   int           // or AnyCPU
	Loops int           // see service.Options
	Sleep time.Duration // see service.Options
	TLS   bool          // see service.Options
}

// Server is a server in a process of its own, ready for clients.
type Server struct {
	*child.Child
	Addr string
}

const (
	startTime   = 10 * time.Second // for a server to be ready
	collectTime = 20 * time.Second // for one to give memory back
)

// Start runs a server that Build has put into dir.
func Start(ctx context.Context, dir string, e Entry, how How) (*Server, error) {
	args := []string{"--addr", "127.0.0.1:0", "--loops", strconv.Itoa(how.Loops), "--sleep", how.Sleep.String()}
	if how.TLS {
		args = append(args, "--tls")
	}
	if e.Engine != "" {
		args = append(args, "--engine", e.Engine)
	}
	process, err := Spawn(ctx, how.CPU, nil, filepath.Join(dir, e.Program), args...)
	if err != nil {
		return nil, err
	}
	var ready service.Ready
	if err := process.Answer(ctx, startTime, &ready); err != nil {
		process.Stop()
		return nil, fmt.Errorf("%s: %w", e.Name, err)
	}
	return &Server{process, ready.Addr}, nil
}

// Collect makes the server give back what memory it can and reads the rest.
func (s *Server) Collect(ctx context.Context) (Memory, error) {
	var done string
	if err := s.Ask(ctx, service.Collect, collectTime, &done); err != nil {
		return Memory{}, err
	}
	if done != service.Collect {
		return Memory{}, errors.New("the server answers " + done)
	}
	return MemoryOf(s.PID)
}

// pushTime is how long a push may take.
const pushTime = 30 * time.Second

// Push has the server push what line says, and returns when it says that it has.
func (s *Server) Push(ctx context.Context, line string) error {
	var done string
	if err := s.Ask(ctx, line, pushTime, &done); err != nil {
		return err
	}
	if done != line {
		return errors.New("the server answers " + done)
	}
	return nil
}

// Count asks how many connections the server's crowd has.
func (s *Server) Count(ctx context.Context) (int, error) {
	var n string
	if err := s.Ask(ctx, service.Count, collectTime, &n); err != nil {
		return 0, err
	}
	return strconv.Atoi(n)
}
