package http1

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"reflect"
	"time"

	"github.com/hone-go/hone/engine"
)

// The limits of net/http and of the engine are one set. A value set in either applies to both
// halves, and each half takes its own where both are set. Where neither is set, the engine's
// defaults apply, and they are never off.
//
//	http.Server        engine.Limits  default   what it bounds
//	ReadHeaderTimeout  FrameTime      5 s       a head, from its first byte to its last
//	ReadTimeout        –              off       a request as a whole, from its first byte to its last
//	–                  FrameTime and  5 s and   a body without ReadTimeout: in memory, or while a handler
//	                   FrameRate      1 KiB/s   waits for it; a ReadHeaderTimeout above 5 s raises the 5 s
//	IdleTimeout        IdleTime       3 min     idle time between two requests
//	WriteTimeout       StallTime      10 s      a peer that reads nothing; WriteTimeout counts for loans
//	MaxHeaderBytes     FrameSize      1 MiB     a head
//
// A handler that means to wait longer for its client calls
// http.ResponseController.SetReadDeadline, as it would because of ReadTimeout.

// initLimits sets the limits of both halves.
func (s *Server) initLimits(std *http.Server) {
	l := s.Limits
	l.FrameTime = cmp.Or(l.FrameTime, std.ReadHeaderTimeout, std.ReadTimeout)
	l.IdleTime = cmp.Or(l.IdleTime, std.IdleTimeout, std.ReadTimeout)
	l.StallTime = cmp.Or(l.StallTime, std.WriteTimeout)
	std.MaxHeaderBytes = min(cmp.Or(std.MaxHeaderBytes, l.FrameSize), math.MaxInt32) // net/http adds to it
	s.engine.Limits = l
	s.protocol.trusts = l.AuthTime > 0
	l = l.OrDefaults()
	std.ReadHeaderTimeout = orOff(cmp.Or(std.ReadHeaderTimeout, std.ReadTimeout, l.FrameTime))
	std.IdleTimeout = orOff(cmp.Or(std.IdleTimeout, std.ReadTimeout, l.IdleTime))
	s.lender.limits = l
	s.lender.bodyTime = l.FrameTime
	if s.Limits.FrameTime == 0 { // net/http's limit for heads is none for bodies
		s.lender.bodyTime = max(l.FrameTime, engine.Limits{}.OrDefaults().FrameTime)
	}
}

// spareFields is how much less than maxFields net/http accepts: since Go 1.27 it has MaxHeaderValueCount.
func spareFields(std *http.Server) int {
	most := reflect.ValueOf(std).Elem().FieldByName("MaxHeaderValueCount")
	if !most.IsValid() || most.Int() <= 0 {
		return 0
	}
	return max(0, maxFields-int(most.Int()))
}

// requestTime is how long a request with a body of that length in memory may take, from its first
// byte to its last.
func (s *Server) requestTime(length int) time.Duration {
	if s.std.ReadTimeout > 0 {
		return s.std.ReadTimeout
	}
	l := &s.lender
	if l.bodyTime > endless {
		return math.MaxInt64
	}
	return l.limits.FrameTime + l.bodyTime + time.Duration(length)*time.Second/time.Duration(l.limits.FrameRate)
}

// orOff converts d to net/http's convention: a limit that is off is negative.
func orOff(d time.Duration) time.Duration {
	if d > endless {
		return -1
	}
	return d
}

// refusal appends the response to a connection that is refused for why, with the bytes of an
// unanswered request; again is engine.Server.ComeAgain. Where net/http closes silently, it does too: a client could take an
// unsolicited response for the answer to its next request.
func refusal(dst, unserved []byte, why engine.Reason, again func() time.Duration) []byte {
	text, fields := "", ""
	switch why {
	case engine.PeerClosed:
		return badRequest(dst, unserved, io.EOF)
	case engine.FrameTimeout, engine.IdleTimeout:
		return badRequest(dst, unserved, os.ErrDeadlineExceeded)
	case engine.TooManyConns:
		text = "too many connections"
	case engine.TooManyPerAddress:
		text = "too many connections from this address"
	case engine.InputBudget:
		text = "no memory for this request"
	case engine.TooManyAtOnce:
		text = "too many connections at once"
		fields = fmt.Sprintf("Retry-After: %d\r\n", int64((again()+time.Second-1)/time.Second))
	default:
		return dst
	}
	dst = append(dst, "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\n"+fields+"Connection: close\r\n\r\n503 Service Unavailable: "...)
	return append(dst, text...)
}

// badRequest appends what net/http answers to a head that ends with err instead of an empty line:
// net/http reads it and judges. A complete head lacks its body: that is not answered.
func badRequest(dst, head []byte, err error) []byte {
	if len(head) == 0 {
		return dst
	}
	_, err = http.ReadRequest(bufio.NewReader(io.MultiReader(bytes.NewReader(head), failing{err})))
	timeout, ok := err.(net.Error)
	if err == nil || err == io.EOF || ok && timeout.Timeout() {
		return dst
	}
	return append(dst, "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request"...)
}

// failing is what a connection reads after it has failed.
type failing struct{ error }

func (f failing) Read([]byte) (int, error) { return 0, f.error }
