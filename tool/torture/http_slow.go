package torture

import (
	"fmt"
	"io"
)

// head returns the start of a request, without the empty line.
func (a *Arena) head(method, lines string) string {
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\n%s", method, a.target.path, a.target.host, lines)
}

// slowHead begins with the request line or within a field, and never ends the head.
func slowHead(c *Conn, peer int) (more string, err error) {
	a := c.arena
	beginnings := []string{"GET /", a.head("GET", ""), a.head("GET", "X-Slow: "), a.head("GET", "Accept: */*\r\n")}
	if more = "X-a: b\r\n"; peer%len(beginnings) == 0 {
		more = "a"
	}
	_, err = io.WriteString(c, beginnings[peer%len(beginnings)])
	return more, err
}

// slowBody promises a body and sends it a byte at a time, in chunks, or not at all.
func slowBody(c *Conn, peer int) (more string, err error) {
	ways := []struct{ lines, more string }{
		{"Content-Length: 1000000\r\n\r\n", "x"},
		{"Transfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n"},
		{"Transfer-Encoding: chunked\r\n\r\n5000\r\n", "x"},
		{"Expect: 100-continue\r\nContent-Length: 1000\r\n\r\n", ""},
	}
	way := ways[peer%len(ways)]
	_, err = io.WriteString(c, c.arena.head("POST", way.lines))
	return way.more, err
}
