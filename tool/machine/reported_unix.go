//go:build unix

package machine

import "syscall"

func askDescriptors() descriptorLimit {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return descriptorLimit{}
	}
	return descriptorLimit{uint64(l.Cur), uint64(l.Max), true}
}
