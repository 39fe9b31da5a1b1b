package main

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"strconv"
	"time"

	"github.com/hone-go/hone/engine"
)

// Protocol serves put, get and feed. If the peer is slower than the server, the visit waits: in
// More for input, in Flush until the peer has read. So a stream needs one chunk of memory,
// however long it is.
type Protocol struct {
	Running context.Context // feeds end with it; nil: only when their clients disconnect
}

const maxLine, chunk = 64, 8<<10 - 64 // a chunk and the line in front of it fit into 8 KiB

// Advance serves the commands at the front of in.
func (p Protocol) Advance(t *engine.Turn, in []byte) (used, need int, err error) {
	for err == nil {
		line, _, whole := bytes.Cut(in[used:], []byte("\n"))
		if !whole && len(line) < maxLine {
			return used, 1, nil
		} else if !t.Room() {
			return used, 0, nil
		}
		t.Mark(used)
		used += min(len(line)+1, len(in)-used)
		verb, arg, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("\r")), []byte(" "))
		n, bad := strconv.ParseUint(string(arg), 10, 40)
		switch {
		case len(line) >= maxLine:
			err = engine.TooLarge
		case bad == nil && string(verb) == "put":
			in, used, err = put(t, in, used, int64(n))
		case bad == nil && string(verb) == "get":
			in, used, err = get(t, in, used, int64(n))
		case bad == nil && string(verb) == "feed" && n > 0:
			p.feed(t, time.Duration(n)*time.Millisecond)
		default:
			err = engine.Malformed
		}
	}
	if err == engine.TooLarge || err == engine.Malformed { // the engine calls Refuse for all other errors
		t.Out = p.Refuse(t.Out, nil, err.(engine.Reason))
	}
	return used, 0, err
}

// put answers n bytes with their checksum. It returns the unserved input, as More does.
func put(t *engine.Turn, in []byte, used int, n int64) (rest []byte, at int, err error) {
	for sum := uint32(0); ; used = 0 {
		part := in[used:min(int64(len(in)), int64(used)+n)]
		sum = crc32.Update(sum, crc32.IEEETable, part)
		used += len(part)
		if n -= int64(len(part)); n == 0 {
			t.Out = fmt.Appendf(t.Out, "%08x\n", sum)
			return in, used, nil
		}
		if in, err = t.More(used, int(min(n, chunk/2))); err != nil {
			return nil, 0, err
		}
	}
}

// get answers with the line n and n bytes. No event is pushed between them.
func get(t *engine.Turn, in []byte, used int, n int64) (rest []byte, at int, err error) {
	t.Hold()
	t.Out = append(strconv.AppendInt(t.Out, n, 10), '\n')
	if n > chunk { // shorter ones are sent with the visit's other answers
		in, err = t.More(used, 0) // so that it holds no input buffer while it waits
		used = 0
	}
	for at := int64(0); at < n && err == nil; at += chunk {
		if t.Out = appendBytes(t.Out, at, min(chunk, n-at)); n > chunk {
			err = t.Flush()
		}
	}
	return in, used, err
}

// feed answers at once, and then pushes events until its client disconnects. The promise of a
// late reply keeps the context alive after the visit.
func (p Protocol) feed(t *engine.Turn, every time.Duration) {
	t.Hold() // so that no event is sent before the answer
	t.Out = append(t.Out, "feed\n"...)
	go push(t.Context(p.Running), t.Later(), every)
}

// Refuse tells the client in one line why the connection ends.
func (p Protocol) Refuse(dst, _ []byte, why engine.Reason) []byte {
	return fmt.Appendf(dst, "error: %v\n", why.String())
}
