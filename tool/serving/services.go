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

// ServiceNames are what --service takes, the usual one first.
func ServiceNames() []string { return []string{"submit", "upper", "faults", WebService, SocketService} }

// service is the handler of one of ServiceNames that is asked in frames.
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

// faults is a service that does what the content says.
type faults struct {
	filler func() []byte // largestFault bytes that are not to be changed
}

// answer answers nothing to nothing, and Malformed to what it cannot do or will not.
//
//	sleep 50ms      block, then answer
//	burn 50ms       use a CPU that long, then answer
//	late 5ms        answer that much later, without blocking
//	late 5ms 60000  the same, with so many bytes
//	reply 60000     answer so many bytes
//	push 3          push so many messages, then answer
//	push 3 6000     the same, of so many bytes each
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
		// Where the connection has ended meanwhile, nobody is left to tell.
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
			panic("hone: a client asked the service faults for a panic")
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

// delay blocks for d, or uses a CPU that long. A server that is cut off does not
// wait for it.
func delay(c framed.Call, how string, d time.Duration) {
	if how == "burn" {
		for end := time.Now().Add(d); time.Now().Before(end) && c.Context().Err() == nil; {
		}
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.Context().Done():
	}
}

// push sends n messages ahead of the answer, with this content or else numbered from 1.
func push(c framed.Call, n int, content []byte) error {
	for i := range n {
		message := content
		if len(message) == 0 {
			message = []byte("push " + strconv.Itoa(i+1))
		}
		if err := c.Conn().Send(uint64(i+1), message); err != nil {
			return wire.Overloaded
		}
	}
	return nil
}
