//go:build !unix

package child

import (
	"os"
	"os/exec"
)

func lead(*exec.Cmd) {}

func askGroup(*os.Process) {}

func terminate(int) {}

func killGroup(p *os.Process) { p.Kill() }

// guard does nothing on systems without process groups.
type guard struct{}

func newGuard() *guard { return nil }

func (*guard) watch(int) {}

func (*guard) dismiss() {}

// isGone cannot tell on this system.
func isGone(int) bool { return false }
