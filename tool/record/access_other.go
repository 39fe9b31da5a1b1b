//go:build !unix

package record

import "os"

func mayWrite(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode()&0o200 != 0
}
