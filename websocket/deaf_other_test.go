//go:build !linux

package websocket

import "errors"

// serveDeaf needs Linux, as TestDeafClients does.
func serveDeaf(string) error { return errors.ErrUnsupported }
