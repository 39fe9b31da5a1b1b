package child

import "syscall"

// endWithUs has the kernel kill the child when this process dies. The guard kills what
// the child has started.
func endWithUs(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
