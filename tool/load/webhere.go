package load

import (
	"context"
	"io"
	"net"
	"time"
)

// wonderTime is how long a server of frames may say nothing at all before it is asked whether it speaks HTTP.
const wonderTime = 700 * time.Millisecond

// wonder asks a silent server whether it speaks HTTP, once: net/http answers frames with nothing, because it
// waits for the end of a line.
func (r *run) wonder(now int64) {
	frames, ok := r.plan.Target.(Frames)
	if !ok || r.wondered || r.phase == Connecting || len(r.conns) == 0 || now-r.origin < int64(wonderTime) || r.lastAnswer() > 0 {
		return
	}
	r.wondered = true
	r.goroutines.Go(func() {
		if frames.speaksHTTP(r.dialing) {
			r.fail(&Error{Kind: Garbage, What: "the server speaks HTTP", Try: "write http:// before its address"})
		}
	})
}

// speaksHTTP asks for a page.
func (f Frames) speaksHTTP(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, wonderTime)
	defer cancel()
	f.Hello = ""
	nc, err := f.Dial(ctx)
	if err != nil {
		return false
	}
	defer nc.Close()
	in := make([]byte, len("HTTP/1."))
	_, err = greet(ctx, nc, func(nc net.Conn) error {
		if _, err := io.WriteString(nc, "GET / HTTP/1.0\r\n\r\n"); err != nil {
			return err
		}
		_, err := io.ReadFull(nc, in)
		return err
	})
	return err == nil && string(in) == "HTTP/1."
}
