//go:build !linux

package journal

import (
	"errors"
	"os"
)

func openDirect(string) (*os.File, []byte, func(), error) {
	return nil, nil, nil, errors.ErrUnsupported
}
