//go:build unix

package child

import (
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
