package child

import "syscall"

// endWithUs has the kernel kill the child when this process is killed, too. What
// the child has started is the guard's to kill.
func endWithUs(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
