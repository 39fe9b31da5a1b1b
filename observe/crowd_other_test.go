//go:build !linux

package observe_test

// childRole is used only on Linux.
const childRole = "HONE_TEST_ROLE"

func serveAsChild() error { return nil }
