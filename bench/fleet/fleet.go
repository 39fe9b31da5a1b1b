// Package fleet builds the server programs, runs each in a process of its own and
// reads what the system knows of it. Linux only.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/hone-go/hone/bench/service"
	"github.com/hone-go/hone/tool/child"
)

// Module is the folder of the module bench, from wherever in the repository the program
// is run.
func Module(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", hone+"/bench").Output()
	if err != nil {
		return "", fmt.Errorf("cannot find the module bench (%w); run this inside the repository", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Compile compiles packages of the module bench into dir.
func Compile(ctx context.Context, module, dir string, packages ...string) error {
	args := []string{"build", "-trimpath", "-o", dir + string(filepath.Separator)} // panics are stored
	cmd := exec.CommandContext(ctx, "go", append(args, packages...)...)
	cmd.Dir = module
	cmd.Env = append(cmd.Environ(), "GOWORK=off") // a workspace may choose other versions than go.mod
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", cmd, err, out)
	}
	return nil
}

// How is the way in which a server is run.
type How struct {
	CPU   int  // or AnyCPU
	Loops int  // see service.Options
	TLS   bool // see service.Options
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

// FreeAddr is an address at which nobody listens; in the moment until a server does, another program could
// take it, and then the server does not start.
func FreeAddr() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return ln.Addr().String(), ln.Close()
}

// Start runs a server that Build has put into dir.
func Start(ctx context.Context, dir string, e Entry, how How) (*Server, error) {
	addr, err := FreeAddr()
	if err != nil {
		return nil, err
	}
	line, err := e.Line(dir, addr, how)
	if err != nil {
		return nil, err
	}
	process, err := Spawn(ctx, how.CPU, "sh", "-c", line)
	if err != nil {
		return nil, err
	}
	var ready service.Ready
	if e.Command == "" {
		err = process.Answer(ctx, startTime, &ready)
	} else {
		err = accepts(ctx, addr, process)
	}
	if err != nil {
		process.Stop()
		return nil, fmt.Errorf("%s: %w: %s", e.Name, err, process.Said())
	}
	return &Server{process, addr}, nil
}

// accepts waits until a program listens, of which nothing tells.
func accepts(ctx context.Context, addr string, process *child.Child) error {
	for end := time.Now().Add(startTime); time.Now().Before(end); {
		if nc, err := net.Dial("tcp", addr); err == nil {
			return nc.Close()
		}
		select {
		case <-process.Ended():
			return errors.New("it has ended")
		default:
		}
		if err := Wait(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	return errors.New("it does not accept connections")
}

// Collect makes the server give back what memory it can, if it is one of bench/servers, and reads the rest.
func (s *Server) Collect(ctx context.Context, e Entry) (Memory, error) {
	if e.Command != "" {
		return MemoryOf(s.PID)
	}
	if err := s.do(ctx, service.Collect, collectTime); err != nil {
		return Memory{}, err
	}
	return MemoryOf(s.PID)
}

// Push has the server push a message to its crowd, and returns when it says that it has.
func (s *Server) Push(ctx context.Context) error {
	const pushTime = 30 * time.Second
	return s.do(ctx, service.Push, pushTime)
}

// do has the server do what a line says.
func (s *Server) do(ctx context.Context, line string, limit time.Duration) error {
	var done string
	if err := s.Ask(ctx, line, limit, &done); err != nil {
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
