package http1

import (
	"cmp"
	"log/slog"
	"strconv"
	"strings"
)

// holes says which known holes of the Go that built this program reach a server's users; SECURITY.md
// lists them. "" means none is known.
func holes(version string) string {
	parts := strings.SplitN(strings.TrimPrefix(version, "go1."), ".", 2)
	minor, err := strconv.Atoi(parts[0])
	if err != nil || !strings.HasPrefix(version, "go1.") || len(parts) < 2 {
		return "" // a development version, or a release candidate
	}
	digits, _, _ := strings.Cut(parts[1], " ") // experiments follow
	patch, err := strconv.Atoi(strings.SplitN(digits, "-", 2)[0])
	if err != nil || minor > 27 || minor == 27 && patch >= 2 || minor == 26 && patch >= 9 {
		return ""
	}
	return "CVE-2026-97032 and other holes in HTTP/2"
}

// warnOfOldGo logs once what holes says, if clients can speak HTTP/2.
func (s *Server) warnOfOldGo(version string) {
	found := holes(version)
	if found != "" && s.http2 != nil && !s.OldGo && (s.protocol.prior || s.secure.Load()) && s.warned.CompareAndSwap(false, true) {
		cmp.Or(s.logger, slog.Default()).Warn("built with a Go that has known holes; build with Go 1.26.9, 1.27.2 or newer", "go", version, "holes", found)
	}
}
