package torture

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

const drip = 500 * time.Millisecond // between two bytes of those that trickle

// head returns the start of a request, without the empty line.
func (a *Arena) head(method, lines string) string {
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\n%s", method, a.target.path, a.target.host, lines)
}

// drips returns an attack whose peers send a beginning and then a byte of more now and then, for
// ever. What names them, in the plural.
func drips(what string, open opener, begin func(a *Arena, peer int) (beginning, more string)) func(context.Context, *Arena) Finding {
	return func(ctx context.Context, a *Arena) Finding {
		crowd, err := a.Crowd(ctx, a.Few, func(ctx context.Context) (*Conn, error) { return open(a, ctx) })
		if err != nil {
			return unknown("%v", err)
		}
		more := make([]string, len(crowd))
		for peer, c := range crowd {
			var beginning string
			beginning, more[peer] = begin(a, peer)
			if _, err := io.WriteString(c, beginning); err != nil {
				return unknown("%v", err)
			}
		}
		dripping, stop := context.WithCancel(ctx)
		var writer sync.WaitGroup
		writer.Go(func() {
			for at := 0; pause(dripping, drip); at++ {
				for peer, c := range crowd {
					if text := more[peer]; text != "" {
						// An error says that the server has closed, which Closings notices.
						_, _ = io.WriteString(c, text[at%len(text):at%len(text)+1])
					}
				}
			}
		})
		took := a.Closings(ctx, crowd)
		stop()
		writer.Wait()
		return a.closed(what, took)
	}
}

// slowHead begins with the request line or within a field, and never ends the head.
func slowHead(a *Arena, peer int) (beginning, more string) {
	beginnings := []string{"G", a.head("GET", ""), a.head("GET", "X-Slow: "), a.head("GET", "Accept: */*\r\n")}
	return beginnings[peer%len(beginnings)], "X-a: b\r\n"
}

// slowBody promises a body and sends it a byte at a time, in chunks, or not at all.
func slowBody(a *Arena, peer int) (beginning, more string) {
	switch peer % 4 {
	case 0:
		return a.head("POST", "Content-Length: 1000000\r\n\r\n"), "x"
	case 1:
		return a.head("POST", "Transfer-Encoding: chunked\r\n\r\n"), "1\r\nx\r\n"
	case 2:
		return a.head("POST", "Transfer-Encoding: chunked\r\n\r\n5000\r\n"), "x"
	}
	return a.head("POST", "Expect: 100-continue\r\nContent-Length: 1000\r\n\r\n"), ""
}
