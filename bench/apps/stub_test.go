//go:build linux

package apps

type noBrowser struct{}

func (noBrowser) close() {}

var shared noBrowser
