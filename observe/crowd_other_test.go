//go:build !linux

package observe_test

// childRole is for tests of Linux.
const childRole = "HONE_TEST_ROLE"

func serveAsChild() error { return nil }
