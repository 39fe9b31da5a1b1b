//go:build !linux

package sys

import "errors"

// Readiness says that Read and Write work here.
const Readiness = false

// Read is not offered here.
func Read(uintptr, []byte) (int, error) { return 0, errors.ErrUnsupported }

// Write is not offered here.
func Write(uintptr, []byte) (int, error) { return 0, errors.ErrUnsupported }

// Unsent is not known here.
func Unsent(uintptr) int { return 0 }

// HungUp is not known here.
func HungUp(uintptr) bool { return false }

// Unread is not known here.
func Unread(uintptr) int { return 0 }

// DescriptorLimit is not known here.
func DescriptorLimit() (uint64, bool) { return 0, false }

// Exhausted is not known here: an accept error that is temporary is retried.
func Exhausted(error) bool { return false }

// Spare is not kept here.
type Spare struct{}

// Hold reports that the spare descriptor is held, so that nothing waits for it.
func (s *Spare) Hold() bool { return true }

// Release reports that there was none to give up.
func (s *Spare) Release() bool { return false }
