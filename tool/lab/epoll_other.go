//go:build !linux

package lab

import "errors"

func epollStage() (*stage, error) { return nil, errors.ErrUnsupported }

// descriptors is not known here.
func descriptors() (int, error) { return 0, errors.ErrUnsupported }
