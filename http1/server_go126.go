//go:build !go1.27

package http1

import "net/http"

// copyNewer copies what http.Server has since Go 1.27.
func copyNewer(_, _ *http.Server) {}
