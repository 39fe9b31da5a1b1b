package http1

import (
	"cmp"
	"math"
	"net/http"
	"time"

	"github.com/hone-go/hone/engine"
)

// The limits of net/http and of the engine are one set. A value set in either applies to both
// halves. Where neither is set, the engine's defaults apply, and they are never off.
//
//	http.Server        engine.Limits   default   what it bounds
//	ReadHeaderTimeout  FrameTime       5 s       a head, and an in-memory body beyond its size at FrameRate
//	ReadTimeout        FrameTime,      off       the same, if ReadHeaderTimeout is not set; a request
//	                   FrameRate                 as a whole
//	–                  FrameRate       1 KiB/s   bodies, in memory or while a handler waits for them
//	IdleTimeout        IdleTime        3 min     idle time between two requests
//	WriteTimeout       StallTime       10 s      a peer that reads nothing; WriteTimeout counts for loans
//	MaxHeaderBytes     FrameSize       1 MiB     a head
//
// A handler that means to wait longer for its client calls
// http.ResponseController.SetReadDeadline, as it would because of ReadTimeout.

// initLimits sets the limits of both halves.
func (s *Server) initLimits(std *http.Server) {
	l := s.Limits
	l.FrameTime = cmp.Or(l.FrameTime, std.ReadHeaderTimeout, std.ReadTimeout)
	l.IdleTime = cmp.Or(l.IdleTime, std.IdleTimeout, std.ReadTimeout)
	l.StallTime = cmp.Or(l.StallTime, std.WriteTimeout)
	if whole := std.ReadTimeout; whole > 0 && l.FrameRate == 0 {
		l.FrameRate = rateWithin(whole - l.FrameTime)
	}
	std.MaxHeaderBytes = cmp.Or(std.MaxHeaderBytes, max(0, l.FrameSize))
	s.engine.Limits = l
	l = l.OrDefaults()
	std.ReadHeaderTimeout = orOff(cmp.Or(std.ReadHeaderTimeout, std.ReadTimeout, l.FrameTime))
	std.IdleTimeout = orOff(cmp.Or(std.IdleTimeout, std.ReadTimeout, l.IdleTime))
	s.lender.limits = l
	s.lender.timed = std.ReadTimeout > 0
}

// rateWithin is the FrameRate at which the largest in-memory body arrives within rest.
func rateWithin(rest time.Duration) int {
	if rest <= 0 {
		return -1 // FrameTime is the only limit
	}
	return int(min(math.MaxInt32, max(1<<10, float64(maxBody)/rest.Seconds())))
}

// orOff converts d to net/http's convention: a limit that is off is negative.
func orOff(d time.Duration) time.Duration {
	if d > endless {
		return -1
	}
	return d
}

// refusal appends the response to a connection that is refused for why. Where net/http closes
// silently, it does too: a client could take an unsolicited response for the answer to its
// next request.
func refusal(dst []byte, why engine.Reason) []byte {
	text := ""
	switch why {
	case engine.TooManyConns:
		text = "too many connections"
	case engine.TooManyPerAddress:
		text = "too many connections from this address"
	case engine.InputBudget:
		text = "no memory for this request"
	default:
		return dst
	}
	dst = append(dst, "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n503 Service Unavailable: "...)
	return append(dst, text...)
}
