//go:build unix

package child

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// lead makes the command the leader of a group, which dies with its context.
func lead(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	endWithUs(cmd.SysProcAttr)
	cmd.Cancel = func() error { killGroup(cmd.Process); return nil }
}

// askGroup asks all of the group to end; those who have ended do not mind.
func askGroup(p *os.Process) { syscall.Kill(-p.Pid, syscall.SIGTERM) }

// killGroup leaves them no choice.
func killGroup(p *os.Process) { syscall.Kill(-p.Pid, syscall.SIGKILL) }

// guard is a shell that kills a group when this process has died: the kernel's signal
// at its death (endWithUs) reaches the leader alone.
type guard struct {
	shell *exec.Cmd
	group io.WriteCloser
}

// untilWeEnd reads a group, and kills it when nobody is left to write more.
const untilWeEnd = `read -r group && while read -r rest; do :; done && kill -s KILL -- "-$group"`

// newGuard starts one before the group, so that the time in which nobody watches is
// that of a write. Without a shell it is nil: the leader alone ends with us, on Linux.
func newGuard() *guard {
	shell := exec.Command("sh", "-c", untilWeEnd)
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is not for it
	group, err := shell.StdinPipe()
	if err != nil || shell.Start() != nil {
		return nil
	}
	return &guard{shell, group}
}

// watch says which group it is. What cannot be written no guard is there to read.
func (g *guard) watch(group int) {
	if g != nil {
		fmt.Fprintln(g.group, group)
	}
}

// dismiss ends the guard, whose group has gone: its number may become another's.
func (g *guard) dismiss() {
	if g == nil {
		return
	}
	g.shell.Process.Kill()
	g.group.Close()
	g.shell.Wait() // killed, as wanted
}

// isGone reports whether there is no such process any more.
func isGone(pid int) bool { return syscall.Kill(pid, 0) == syscall.ESRCH }
