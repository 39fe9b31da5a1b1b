//go:build !linux

package lab

import "errors"

func epollStage() (*stage, error) { return nil, errors.ErrUnsupported }

// descriptors cannot tell on this system.
func descriptors() (int, error) { return 0, errors.ErrUnsupported }
