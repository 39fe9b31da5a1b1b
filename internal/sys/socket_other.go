//go:build !linux

package sys

import "errors"

// CloseWrite is not offered here.
func (s Socket) CloseWrite() error { return errors.ErrUnsupported }

// ResetOnClose does nothing here.
func (s Socket) ResetOnClose() {}

// LimitUnsent does nothing here.
func LimitUnsent(fd uintptr, n int) {}

// Close is not offered here.
func (s Socket) Close() error { return errors.ErrUnsupported }
