//go:build !unix

package child

import (
	"os"
	"os/exec"
)

func lead(*exec.Cmd) {}

func askGroup(*os.Process) {}

func killGroup(p *os.Process) { p.Kill() }

// guard does nothing where there are no groups to kill.
type guard struct{}

func newGuard() *guard { return nil }

func (*guard) watch(int) {}

func (*guard) dismiss() {}

// isGone cannot tell.
func isGone(int) bool { return false }
