package traffic

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/hone-go/hone/tool/load/offer"
)

// Session is a client in the course of a flow. A zero Session must be started; one that has ended
// can be started again, and reuses its memory.
type Session struct {
	script  *Script
	flow    *flow
	number  uint64
	step    int
	preview bool // taken values appear as <name>

	values  [][]byte // values taken from answers, by index
	cookies []cookie

	want, found []byte // buffers of the current check
}

type cookie struct{ name, value []byte }

// Start begins session number of a flow.
func (s *Session) Start(script *Script, flow int, number uint64) {
	s.script, s.flow, s.number, s.step = script, script.flows[flow], number, 0
	for len(s.values) < len(s.flow.taken) {
		s.values = append(s.values, nil)
	}
	for i := range s.values {
		s.values[i] = s.values[i][:0]
	}
	s.cookies = s.cookies[:0]
}

func (s *Session) seed() uint64 { return s.script.seed ^ s.flow.key }

// Request returns the session's current step.
func (s *Session) Request() *Request { return s.flow.steps[s.step] }

// Answer takes the step's values from an answer and runs its checks.
func (s *Session) Answer(seen Answer) error {
	r, a := s.Request(), &seen
	if s.script.cookies {
		s.keepCookies(a.Head)
	}
	if r.WantsBody && int64(len(a.Body)) < a.Length {
		return &failure{r.Name, "the answer's body has more than 1 MiB, which checks cannot see"}
	}
	for i := range r.checks {
		if k := &r.checks[i]; !k.holds(s, a) {
			return &failure{r.Name, fmt.Sprintf("the answer fails check %d, %s", i+1, k.public())}
		}
	}
	for i := range r.takes {
		t := &r.takes[i]
		value, ok := t.what.find(s, a)
		if !ok {
			return &failure{r.Name, "the answer has nothing to take for " + t.name + " (" + t.public() + ")"}
		}
		if len(value) > mostValue {
			return &failure{r.Name, "the answer's " + t.name + " has more than 8 KiB"}
		}
		s.values[t.slot] = append(s.values[t.slot][:0], value...)
	}
	return nil
}

// Next moves to the next step, which is due after think; more is false when the session is over.
func (s *Session) Next() (think time.Duration, more bool) {
	r := s.Request()
	if s.step++; s.step == len(s.flow.steps) {
		s.step--
		return 0, false
	}
	if think = r.think; r.thinkSpan > 1 {
		think += time.Duration(offer.Scramble(s.seed()^r.key, s.number) % r.thinkSpan)
	}
	return think, true
}

// keepCookies stores the cookies of an answer. Domain, Path and Secure are ignored: a session
// talks to one server.
func (s *Session) keepCookies(head []byte) {
	for line := range headers(head, "set-cookie") {
		name, value := splitCookie(line)
		if len(name) == 0 || len(name)+len(value) > mostValue {
			continue
		}
		at := slices.IndexFunc(s.cookies, func(c cookie) bool { return bytes.Equal(c.name, name) })
		switch gone := isGone(line); {
		case gone && at >= 0:
			s.cookies = slices.Delete(s.cookies, at, at+1)
		case gone || at < 0 && len(s.cookies) == mostCookies:
		case at >= 0:
			s.cookies[at].value = append(s.cookies[at].value[:0], value...)
		default:
			s.cookies = append(s.cookies, cookie{bytes.Clone(name), bytes.Clone(value)})
		}
	}
}

// splitCookie returns the name and the value in a Set-Cookie header.
func splitCookie(line []byte) (name, value []byte) {
	pair, _, _ := bytes.Cut(line, []byte(";"))
	name, value, _ = bytes.Cut(pair, []byte("="))
	return bytes.TrimSpace(name), bytes.TrimSpace(value)
}

// isGone reports whether a Set-Cookie header deletes its cookie. Only the attributes are parsed: the
// name and the value may be any.
func isGone(line []byte) bool {
	_, attributes, _ := bytes.Cut(line, []byte(";"))
	c, err := http.ParseSetCookie("name=;" + string(attributes))
	return err == nil && (c.MaxAge < 0 || c.MaxAge == 0 && !c.Expires.IsZero() && c.Expires.Before(time.Now()))
}

// AppendCookies appends the Cookie header, or nothing.
func (s *Session) AppendCookies(dst []byte) []byte {
	if len(s.cookies) == 0 {
		return dst
	}
	dst = append(dst, "Cookie: "...)
	for i, c := range s.cookies {
		if i > 0 {
			dst = append(dst, "; "...)
		}
		dst = append(append(append(dst, c.name...), '='), c.value...)
	}
	return append(dst, '\r', '\n')
}

// Preview makes taken values appear as <name>, for requests that are only printed.
func (s *Session) Preview() { s.preview = true }
