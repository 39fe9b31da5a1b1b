package serving

import (
	"bytes"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/wire"
)

// ServiceNames are the values of --service, the default first.
func ServiceNames() []string { return []string{"submit", "upper", "faults", WebService, SocketService} }

// service returns the handler of a framed service of ServiceNames.
func service(name string) framed.Handler {
	switch name {
	case "upper":
		return framed.HandlerFunc(upper)
	case "faults":
		all := sync.OnceValue(func() []byte { return bytes.Repeat([]byte{'x'}, largestFault) })
		return framed.HandlerFunc(faults{filler: all}.answer)
	}
	return framed.HandlerFunc(submit)
}

// submit accepts every request with an empty reply.
func submit(_ framed.Call, dst, _ []byte) ([]byte, error) { return dst, nil }

// upper answers with the content in upper case. ASCII does not allocate.
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

// Limits of the service faults.
const (
	longestFault = time.Minute
	largestFault = 16 << 20
	mostPushes   = 10_000
)

// faults is a service that injects the faults named in a request.
type faults struct {
	filler func() []byte // largestFault bytes, shared: do not modify
}

// answer does what a request asks; empty content gets an empty reply, an unknown or too
// large one Malformed.
//
//	sleep 50ms      block, then answer
//	burn 50ms       use a CPU that long, then answer
//	late 5ms        answer that much later, without blocking
//	late 5ms 60000  the same, with that many bytes
//	reply 60000     answer with that many bytes
//	push 3          push that many messages, then answer
//	push 3 6000     the same, of that many bytes each
//	panic           panic
func (f faults) answer(c framed.Call, dst, req []byte) ([]byte, error) {
	if len(req) == 0 {
		return dst, nil
	}
	verb, rest, _ := strings.Cut(string(req), " ")
	switch verb {
	case "late":
		rest, size, sized := strings.Cut(rest, " ")
		d, ok := faultTime(rest)
		n, sizeOK := faultNumber(size, largestFault)
		if !ok || sized && !sizeOK {
			return nil, wire.Malformed
		}
		reply := c.Later()
		// If the connection has ended meanwhile, Send fails and nobody waits for it.
		time.AfterFunc(d, func() { reply.Send(f.filler()[:n]) })
		return dst, nil
	case "sleep", "burn":
		d, ok := faultTime(rest)
		if !ok {
			return nil, wire.Malformed
		}
		delay(c, verb, d)
		return dst, nil
	case "reply":
		n, ok := faultNumber(rest, largestFault)
		if !ok {
			return nil, wire.Malformed
		}
		return append(dst, f.filler()[:n]...), nil
	case "push":
		rest, size, sized := strings.Cut(rest, " ")
		n, ok := faultNumber(rest, mostPushes)
		bytes, sizeOK := faultNumber(size, largestFault)
		if !ok || sized && !sizeOK {
			return nil, wire.Malformed
		}
		return dst, push(c, n, f.filler()[:bytes])
	case "panic":
		if rest == "" {
			panic("hone: a client asked the service faults to panic")
		}
	}
	return nil, wire.Malformed
}

func faultTime(text string) (time.Duration, bool) {
	d, err := time.ParseDuration(text)
	return d, err == nil && d >= 0 && d <= longestFault
}

func faultNumber(text string, most int) (int, bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= 0 && n <= most
}

// delay blocks for d, or uses a CPU that long. It ends early when the server closes the
// connection.
func delay(c framed.Call, how string, d time.Duration) {
	if how == "burn" {
		for end := time.Now().Add(d); time.Now().Before(end) && c.Context().Err() == nil; {
		}
		return
	}
	select {
	case <-time.After(d):
	case <-c.Context().Done():
	}
}

// push sends n messages before the answer, with this content or numbered from 1.
func push(c framed.Call, n int, content []byte) error {
	for i := range n {
		message := content
		if len(message) == 0 {
			message = []byte("push " + strconv.Itoa(i+1))
		}
		if err := c.Conn().Push(uint64(i+1), message); err != nil {
			return wire.Overloaded
		}
	}
	return nil
}
