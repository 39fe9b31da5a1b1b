//go:build !linux

package page

import "context"

// ThisHost knows nothing here.
func ThisHost() Source {
	return func(context.Context) map[string]float64 { return nil }
}
