package http1

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"

	"github.com/hone-go/hone/internal/faultlog"
)

// Where log lines go. net/http's own lines, and those in which http1 says the same, go to
// Std.ErrorLog if that is set, in net/http's words, else to Logger. Refused connections, of
// which net/http has none, go to Logger.

// The reasons of lines that net/http would log, besides faultlog.Panicked.
const (
	acceptFailed = "accept_failed"   // the engine's
	mistaken     = "handler_mistake" // a call of the handler that has no effect
	handshake    = "tls_handshake"   // the engine's
	byNetHTTP    = "net_http"        // about a lent connection
)

// report logs a line, which may take some effort to make, in net/http's words.
func (s *Server) report(reason string, line func() string) {
	to := s.logger
	if to == nil && reason == mistaken {
		to = slog.Default()
	}
	s.faults.Write(to, slog.LevelWarn, reason, func() (string, []any) { return line(), nil })
}

// initLog sets where lines go.
func (s *Server) initLog(errorLog *log.Logger) {
	s.logger = s.Logger
	if errorLog != nil {
		e := stdLog{to: errorLog}
		if s.Logger != nil {
			e.others = s.Logger.Handler()
		}
		s.logger = slog.New(e)
	}
	s.engine.Logger = s.logger
	s.std.ErrorLog = log.New(lentLines{s}, "", 0)
}

// reportPanics counts and logs a panic of a handler on a lent connection, as the engine does
// for its connections, and lets net/http end the request. It must be deferred.
func (s *Server) reportPanics(remote string) {
	v := recover()
	if v == nil {
		return // the handler has returned, or ends its goroutine
	}
	if v != http.ErrAbortHandler {
		s.lentPanics.Add(1)
		s.faults.Panic(cmp.Or(s.logger, slog.Default()), remote, v)
	}
	panic(http.ErrAbortHandler) // which net/http does not log
}

// lentLines receives what net/http logs about lent connections.
type lentLines struct{ server *Server }

// mistakes are the beginnings of net/http's lines about handlers; all others are about clients.
var mistakes = [...]string{
	"http: superfluous response.WriteHeader call", "http: response.WriteHeader on hijacked", "http: response.Write on hijacked",
	"http: invalid Content-Length", "http: WriteHeader called with both", "ignoring invalid trailer",
}

func (l lentLines) Write(line []byte) (int, error) {
	text, reason := strings.TrimSuffix(string(line), "\n"), byNetHTTP
	for _, m := range mistakes {
		if strings.HasPrefix(text, m) {
			reason = mistaken
		}
	}
	l.server.report(reason, func() string { return text })
	return len(line), nil
}

// stdLog is the slog.Handler for Std.ErrorLog.
type stdLog struct {
	to     *log.Logger
	others slog.Handler // for lines that net/http would not log; nil: they are dropped
}

func (stdLog) Enabled(context.Context, slog.Level) bool { return true }

// Handle writes a line of the server or the engine, neither of which has groups.
func (l stdLog) Handle(ctx context.Context, r slog.Record) error {
	of := map[string]slog.Value{}
	r.Attrs(func(a slog.Attr) bool {
		of[a.Key] = a.Value
		return true
	})
	text, stack := r.Message, ""
	reason := of["reason"].String()
	switch {
	case reason != faultlog.Panicked && reason != acceptFailed && reason != mistaken && reason != handshake && reason != byNetHTTP:
		if l.others != nil && l.others.Enabled(ctx, r.Level) {
			return l.others.Handle(ctx, r)
		}
		return nil
	case r.Message == faultlog.Further:
		text = fmt.Sprintf("http: %v further lines suppressed (%s)", of["suppressed"], reason)
		delete(of, "suppressed")
	case reason == faultlog.Panicked:
		text = fmt.Sprintf("http: panic serving %s: %v", remoteText(of["remote"]), of["panic"])
		stack = "\n" + of["stack"].String()
	case reason == handshake:
		text = fmt.Sprintf("http: TLS handshake error from %s: %v", remoteText(of["remote"]), of["error"])
	case reason == acceptFailed:
		text = fmt.Sprintf("http: Accept error: %v; retrying", of["error"])
	}
	if n, ok := of["suppressed"]; ok {
		text += fmt.Sprintf(" (%v more suppressed)", n)
	}
	return l.to.Output(2, text+stack)
}

// remoteText is a peer's address in net/http's format.
func remoteText(remote slog.Value) string {
	if addr, ok := remote.Any().(netip.AddrPort); ok && !addr.IsValid() {
		return "@" // a unix socket
	}
	return remote.String()
}

func (l stdLog) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l stdLog) WithGroup(string) slog.Handler      { return l }
