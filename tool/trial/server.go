package trial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/hone-go/hone/tool/child"
	"github.com/hone-go/hone/tool/load/codec"
	"github.com/hone-go/hone/tool/record"
)

// serverSide is a server during a trial.
type serverSide struct {
	Server
	label  string // its name in messages
	out    string // its {out}
	run    *record.Run
	binary string // the SHA-256 of its program, once known
}

// Start runs the server and waits until it is ready. Its Build is not run, and {out} is its Dir. The
// caller stops it.
func (s Server) Start(ctx context.Context, target codec.Target) (*child.Child, error) {
	one := serverSide{Server: s, label: "the server", out: s.Dir}
	return one.start(ctx, target)
}

// shell returns a command that runs line in a shell.
func (s *serverSide) shell(ctx context.Context, line string) *exec.Cmd {
	line = strings.ReplaceAll(line, "{out}", s.out)
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	if runtime.GOOS == "windows" {
		cmd = exec.CommandContext(ctx, "cmd", "/C", line)
	}
	cmd.Dir = s.Dir
	cmd.Env = cmd.Environ()
	for _, e := range s.Env {
		cmd.Env = append(cmd.Env, strings.ReplaceAll(e, "{out}", s.out))
	}
	return cmd
}

func (s *serverSide) build(ctx context.Context) error {
	if s.Build == "" {
		return nil
	}
	process, err := child.Start(s.shell(ctx, s.Build), child.Options{Signal: true})
	if err != nil {
		return fmt.Errorf("the command that builds %s could not be run: %w", s.label, err)
	}
	defer process.Stop()
	if err := process.How(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("building %s ended with %w; its output: %s; run it by hand", s.label, err, said(process))
	}
	return nil
}

const (
	firstLook = 2 * time.Millisecond // first poll of the readiness check, then with growing pauses
	lastLook  = 100 * time.Millisecond
)

// start runs the server and waits until it is ready.
func (s *serverSide) start(ctx context.Context, target codec.Target) (*child.Child, error) {
	if err := dials(ctx, target); err == nil {
		return nil, fmt.Errorf("something answers at %v before %s was started; stop it, or use another port", target, s.label)
	}
	heard := s.Ready.listen()
	process, err := child.Start(s.shell(ctx, s.Command), child.Options{Signal: true, Grace: cmp.Or(s.StopWithin, DefaultStop), Said: heard.line})
	if err != nil {
		return nil, fmt.Errorf("the command of %s could not be run: %w", s.label, err)
	}
	if err := s.await(ctx, process, heard, target, cmp.Or(s.ReadyWithin, DefaultReady)); err != nil {
		process.Stop()
		return nil, err
	}
	return process, nil
}

func (s *serverSide) await(ctx context.Context, process *child.Child, heard *hearing, target codec.Target, within time.Duration) error {
	// The check runs beside the wait, which it must not delay if it hangs.
	looks, stop := context.WithCancel(ctx)
	looked, looking := make(chan error, 1), false
	defer func() {
		if stop(); looking {
			<-looked
		}
	}()
	limit := time.NewTimer(within)
	defer limit.Stop()
	pause := firstLook
	look := time.NewTimer(0)
	defer look.Stop()
	last := errors.New("the check has had no answer")
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-process.Ended():
			return s.died(process, "before it was ready")
		case <-limit.C:
			return fmt.Errorf("%s was not ready within %v: %v; its output: %s; give it more time, or another readiness check", s.label, within, last, said(process))
		case <-heard.yes:
			return nil
		case <-look.C:
			looking = true
			go func() { looked <- s.Ready.look(looks, target) }()
		case last = <-looked:
			if looking = false; last == nil {
				return nil
			}
			look.Reset(pause)
			pause = min(2*pause, lastLook)
		}
	}
}

// notInFolder is how a shell ends that has not found a program: a built one is in no git revision.
const notInFolder = 127

// died returns the error about a server that exited unexpectedly.
func (s *serverSide) died(process *child.Child, when string) error {
	how, try := "with exit code 0", "run it by hand"
	if err := process.How(); err != nil {
		how = "with " + err.Error()
		if end := new(exec.ExitError); errors.As(err, &end) && end.ExitCode() == notInFolder && s.Build == "" {
			try = "build it in each folder that is measured: --build 'go build -o {out}/server .' --cmd {out}/server"
		}
	}
	return fmt.Errorf("%s ended %s, %s; its output: %s; %s", s.label, when, how, said(process), try)
}

// dials reports whether the target accepts a connection.
func dials(ctx context.Context, target codec.Target) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	c, err := target.Dial(ctx)
	if err != nil {
		return err
	}
	return c.Close()
}

// hearing waits for a line of output.
type hearing struct {
	ready Ready
	yes   chan struct{} // closed when the line has appeared
	once  sync.Once
}

func (h *hearing) line(text []byte) {
	if h.ready.line != nil && h.ready.line.Match(text) {
		h.once.Do(func() { close(h.yes) })
	}
}

var errNotSaid = errors.New("the line has not appeared")

// said returns the end of a process's output.
func said(process *child.Child) string {
	if words := process.Said(); words != "" {
		return words
	}
	return "nothing"
}
