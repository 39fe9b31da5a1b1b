//go:build !linux && !darwin

package journal

func freeSpace(string) (uint64, error) { return 1 << 62, nil }
