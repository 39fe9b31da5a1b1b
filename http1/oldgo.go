package http1

import (
	"cmp"
	"go/version"
	"log/slog"
	"strings"
)

// hasHoles reports whether the Go of that version has known holes that clients of HTTP/2 can reach.
// SECURITY.md lists them.
func hasHoles(of string) bool {
	of, _, _ = strings.Cut(of, " ") // experiments follow
	return version.IsValid(of) && (version.Compare(of, "go1.26.9") < 0 || version.Lang(of) == "go1.27" && version.Compare(of, "go1.27.2") < 0)
}

// warnOfOldGo logs that hasHoles is true, if clients can speak HTTP/2.
func (s *Server) warnOfOldGo(of string) {
	if hasHoles(of) && s.http2 != nil && !s.OldGo && (s.protocol.prior || s.secure.Load()) {
		cmp.Or(s.logger, slog.Default()).Warn("built with a Go whose HTTP/2 has known holes, such as CVE-2026-97032; build with Go 1.26.9, 1.27.2 or newer", "go", of)
	}
}
