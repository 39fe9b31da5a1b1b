package deploy

import (
	"os/exec"
	"syscall"
)

// dieWithUs has the kernel kill a child if a timeout ends the tests first.
func dieWithUs(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
