package http1

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"
)

func TestHoles(t *testing.T) {
	for version, want := range map[string]bool{
		"go1.25.12": true, "go1.26.0": true, "go1.26.8": true, "go1.26.8 X:nodwarf5": true, "go1.26.8-distribution": true,
		"go1.27.0": true, "go1.27.1": true, "go1.26.9": false, "go1.26.11": false, "go1.27.2": false, "go1.28.0": false,
		"devel go1.29-abcdef": false, "go1.27rc1": true, "": false,
	} {
		if got := hasHoles(version); got != want {
			t.Errorf("%q has holes: %v", version, got)
		}
	}
}

// A server built with an old Go says so, if clients can speak HTTP/2, and only then.
func TestWarnsOfAnOldGo(t *testing.T) {
	for name, x := range map[string]struct {
		set  func(*Server)
		want int
	}{
		"without TLS": {func(*Server) {}, 0},
		"TLS":         {func(s *Server) { s.secure.Store(true) }, 1},
		"quiet":       {func(s *Server) { s.secure.Store(true); s.OldGo = true }, 0},
		"off":         {func(s *Server) { s.secure.Store(true); s.NoHTTP2 = true }, 0},
		"prior knowledge": {func(s *Server) {
			s.Std = &http.Server{Protocols: new(http.Protocols)}
			s.Std.Protocols.SetUnencryptedHTTP2(true)
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var log logged
			s := &Server{Logger: slog.New(slog.NewTextHandler(&log, nil))}
			x.set(s)
			s.init()
			s.warnOfOldGo("go1.26.8")
			if got := strings.Count(log.String(), "go=go1.26.8"); got != x.want {
				t.Errorf("said %d times, want %d: %s", got, x.want, &log)
			}
		})
	}
}
