//go:build !linux

package writer

import "os"

// DataSync makes a file durable.
func DataSync(f *os.File) error { return f.Sync() }
