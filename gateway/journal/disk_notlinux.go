//go:build !linux

package journal

import (
	"errors"
	"os"
)

func dataSync(f *os.File) error { return f.Sync() }

func openDirect(string) (*os.File, []byte, func(), error) {
	return nil, nil, nil, errors.ErrUnsupported
}
