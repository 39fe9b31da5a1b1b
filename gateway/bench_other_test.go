//go:build !linux

package gateway

import "errors"

// play needs Linux, where a process's CPU time can be read.
func play(string) error { return errors.ErrUnsupported }
