//go:build !linux

package sys

import "errors"

// Readiness reports that Write and Unread work on this system.
const Readiness = false

// Read is not supported here.
func Read(uintptr, []byte) (int, error) { return 0, errors.ErrUnsupported }

// Write is not supported here.
func Write(uintptr, []byte) (int, error) { return 0, errors.ErrUnsupported }

// Unsent returns 0 here.
func Unsent(uintptr) int { return 0 }

// HungUp returns false here.
func HungUp(uintptr) bool { return false }

// Broken returns false here.
func Broken(uintptr) bool { return false }

// Unread returns 0 here.
func Unread(uintptr) int { return 0 }

// DescriptorLimit is not supported here.
func DescriptorLimit() (uint64, bool) { return 0, false }

// ClockSynchronised returns false here.
func ClockSynchronised() bool { return false }

// Missing returns 0: there is no cheap way to find out.
func Missing(int) (int, error) { return 0, nil }

// Exhausted returns false here: a temporary accept error is retried.
func Exhausted(error) bool { return false }

// Spare is empty here.
type Spare struct{}

// Hold returns true, so that nothing waits for the spare descriptor.
func (s *Spare) Hold() bool { return true }

// Release returns false: there is nothing to release.
func (s *Spare) Release() bool { return false }
