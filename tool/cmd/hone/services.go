package main

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/wire"
)

// serviceNames are what --service takes, the usual one first.
func serviceNames() []string { return []string{"submit", "upper", "faults"} }

// service is the handler of one of serviceNames.
func service(name string) framed.Handler {
	switch name {
	case "upper":
		return framed.HandlerFunc(upper)
	case "faults":
		return framed.HandlerFunc(faults)
	}
	return framed.HandlerFunc(submit)
}

// submit accepts everything and has nothing to say about it.
func submit(_ framed.Call, dst, _ []byte) ([]byte, error) { return dst, nil }

// upper answers the content in upper case. ASCII costs no allocation.
func upper(_ framed.Call, dst, req []byte) ([]byte, error) {
	start := len(dst)
	dst = append(dst, req...)
	for i, b := range dst[start:] {
		switch {
		case b >= 0x80:
			return append(dst[:start], bytes.ToUpper(req)...), nil
		case 'a' <= b && b <= 'z':
			dst[start+i] = b - 'a' + 'A'
		}
	}
	return dst, nil
}

// The most that faults does.
const (
	longestFault = time.Minute
	largestFault = 16 << 20
	mostPushes   = 10_000
)

// faults does what the content says; it answers nothing to nothing, and
// Malformed to what it cannot do or will not.
//
//	sleep 50ms    block, then answer
//	burn 50ms     use a CPU that long, then answer
//	late 5ms      answer that much later, without blocking
//	reply 60000   answer so many bytes
//	push 3        push so many messages, then answer
//	panic         panic
func faults(c framed.Call, dst, req []byte) ([]byte, error) {
	if len(req) == 0 {
		return dst, nil
	}
	verb, rest, _ := strings.Cut(string(req), " ")
	switch verb {
	case "sleep", "burn", "late":
		d, err := time.ParseDuration(rest)
		if err != nil || d < 0 || d > longestFault {
			return nil, wire.Malformed
		}
		return dst, delay(c, verb, d)
	case "reply":
		n, err := strconv.Atoi(rest)
		if err != nil || n < 0 || n > largestFault {
			return nil, wire.Malformed
		}
		return append(dst, bytes.Repeat([]byte{'x'}, n)...), nil
	case "push":
		n, err := strconv.Atoi(rest)
		if err != nil || n < 0 || n > mostPushes {
			return nil, wire.Malformed
		}
		return dst, push(c, n)
	case "panic":
		if rest == "" {
			panic("hone: a client asked the service faults for a panic")
		}
	}
	return nil, wire.Malformed
}

// delay lets d pass in one of three ways. A server that is cut off does not
// wait for it.
func delay(c framed.Call, how string, d time.Duration) error {
	switch how {
	case "late":
		reply := c.Later()
		// Where the connection has ended meanwhile, nobody is left to tell.
		time.AfterFunc(d, func() { reply.Send(nil) })
	case "burn":
		for end := time.Now().Add(d); time.Now().Before(end) && c.Context().Err() == nil; {
		}
	default:
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-c.Context().Done():
		}
	}
	return nil
}

// push sends n messages, numbered from 1, ahead of the answer.
func push(c framed.Call, n int) error {
	for i := range n {
		if err := c.Conn().Send(uint64(i+1), []byte("push "+strconv.Itoa(i+1))); err != nil {
			return wire.Overloaded
		}
	}
	return nil
}
