//go:build !linux

package child

import "errors"

func (c *Child) Used() (Use, error) { return Use{}, errors.ErrUnsupported }

func UsedBy(...int) (Use, error) { return Use{}, errors.ErrUnsupported }

func (u Use) Descriptors() int { return 0 }

func LeaveDescriptors(int, int) (func() error, error) { return nil, errors.ErrUnsupported }

func (u Use) Program() string { return "" }

// anybodyIn cannot tell zombies on this system, so it reports none.
func anybodyIn(int) bool { return false }

// sameProgram is never asked on this system.
func sameProgram(int, int) bool { return true }
