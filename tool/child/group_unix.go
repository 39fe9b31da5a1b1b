//go:build unix

package child

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// lead makes the command the leader of a process group that dies with its context.
func lead(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	endWithUs(cmd.SysProcAttr)
	cmd.Cancel = func() error { killGroup(cmd.Process); return nil }
}

// askGroup sends SIGTERM to the group.
func askGroup(p *os.Process) { syscall.Kill(-p.Pid, syscall.SIGTERM) }

// terminate sends SIGTERM to one process.
func terminate(pid int) { syscall.Kill(pid, syscall.SIGTERM) }

// killGroup sends SIGKILL to the group.
func killGroup(p *os.Process) { syscall.Kill(-p.Pid, syscall.SIGKILL) }

// guard is a shell that kills a group when this process has died: the kernel's
// parent-death signal (endWithUs) reaches only the leader.
type guard struct {
	shell *exec.Cmd
	group io.WriteCloser
}

// untilWeEnd reads a group id, and kills that group once all writers have closed the
// pipe.
const untilWeEnd = `read -r group && while read -r rest; do :; done && kill -s KILL -- "-$group"`

// newGuard starts a guard before the group, so that the group is unguarded only for the
// duration of a write. Without a shell it returns nil: then only the leader ends with us,
// on Linux.
func newGuard() *guard {
	shell := exec.Command("sh", "-c", untilWeEnd)
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that Ctrl-C does not reach it
	group, err := shell.StdinPipe()
	if err != nil || shell.Start() != nil {
		return nil
	}
	return &guard{shell, group}
}

// watch tells the guard its group. The write fails only if the guard is gone.
func (g *guard) watch(group int) {
	if g != nil {
		fmt.Fprintln(g.group, group)
	}
}

// dismiss ends the guard after its group has ended: the id may be reused.
func (g *guard) dismiss() {
	if g == nil {
		return
	}
	g.shell.Process.Kill()
	g.group.Close()
	g.shell.Wait() // it was killed on purpose
}

// isGone reports whether the process no longer exists.
func isGone(pid int) bool { return syscall.Kill(pid, 0) == syscall.ESRCH }
