//go:build !linux

package dashboard

import "os/exec"

// dieWithUs leaves that to whoever runs the tests.
func dieWithUs(*exec.Cmd) {}
