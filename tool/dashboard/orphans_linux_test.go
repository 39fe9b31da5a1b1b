package dashboard

import (
	"os/exec"
	"syscall"
)

// dieWithUs has the system end a child when a timeout ends the tests before they
// could.
func dieWithUs(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
