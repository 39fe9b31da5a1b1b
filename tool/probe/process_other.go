//go:build !linux

package probe

import (
	"errors"
	"fmt"

	"github.com/hone-go/hone/tool/record"
)

// Local needs Linux; elsewhere its error is errors.ErrUnsupported.
func Local(pid int) (record.Artefact, error) {
	return record.Artefact{}, fmt.Errorf("probe: process %d: %w", pid, errors.ErrUnsupported)
}
