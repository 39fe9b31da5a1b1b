package websocket

import (
	"bytes"
	"testing"

	"github.com/hone-go/hone/internal/testrun"
)

func TestNoAllocations(t *testing.T) {
	if testrun.Race {
		t.Skip("the race detector allocates; the other builds of make test check this")
	}
	c := &Compression{}
	text := benchText(2000)
	dst := make([]byte, 0, 64<<10)
	payload := bytes.Clone(c.deflate(nil, mostWindow, text))
	if _, f := c.inflate(dst, payload, 2000, true); f != 0 { // so that both exist
		t.Fatal(f)
	}
	prepared := Prepare(Text, text, c)
	messages := pipelined(16, 64, 0x81)
	fragments := stream(0x01, "κόσ", 0x89, "ping", 0x00, "με", 0x80, "!")
	in := make([]byte, 64<<10)
	var errorSink error // a stored error makes the compiler keep the conversion
	decode := func(stream []byte, step int, want opcode) {
		n := copy(in, stream)
		var state uint64
		used, last := 0, opContinuation
		for end := step; ; end += step {
			d := decoder{limit: 1000, server: true}
			d.load(state)
			for {
				e, f := d.next(in[used:min(end, n)])
				if used += e.used; f != 0 {
					errorSink = f
					return
				}
				if e.op == opContinuation {
					break
				}
				last = e.op
			}
			if state = d.state(); end >= n {
				break
			}
		}
		if last != want {
			t.Errorf("the last event is %d, want %d", last, want)
		}
	}
	for name, f := range map[string]func(){
		"messages":                func() { decode(messages, len(messages), opText) },
		"messages, byte by byte":  func() { decode(messages, 1, opText) },
		"fragments":               func() { decode(fragments, len(fragments), opText) },
		"fragments, byte by byte": func() { decode(fragments, 1, opText) },
		"a fault":                 func() { decode([]byte{0xff, 0xff}, 2, 0) },
		"a server's frame":        func() { dst = appendFrame(dst[:0], 0x81, text) },
		"a client's frame":        func() { dst = appendMasked(dst[:0], 0x81, text) },
		"an answer": func() {
			dst = beginFrame(dst[:0], 100)
			body := len(dst)
			dst = endFrame(append(dst, text...), 0, body, 0x81)
		},
		"a Close frame":    func() { dst = appendClose(dst[:0], GoingAway, "bye") },
		"a prepared frame": func() { dst = append(dst[:0], prepared.frame(mostWindow)...) },
		"compressing":      func() { dst = c.deflate(dst[:0], mostWindow, text) },
		"inflating": func() {
			if _, f := c.inflate(dst[:0], payload, 2000, true); f != 0 {
				errorSink = f
			}
		},
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
	if errorSink != error(faultReserved) {
		t.Errorf("the fault is %v", errorSink)
	}
}
