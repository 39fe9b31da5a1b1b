//go:build !linux

package page

import "context"

// ThisHost has no figures on this system.
func ThisHost() Source {
	return func(context.Context) map[string]float64 { return nil }
}
