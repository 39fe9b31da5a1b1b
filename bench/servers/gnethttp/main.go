// Command gnethttp answers HTTP on github.com/panjf2000/gnet, which has no HTTP of its own.
// It parses nothing: it looks for the ends of heads, and at what a path begins with.
package main

import (
	"bytes"
	"fmt"
	"net/http"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/hone-go/hone/bench/service"
	"github.com/hone-go/hone/bench/web"
)

func main() {
	service.Main([]string{"loop"}, func(o service.Options, ready func(string)) error {
		s := &server{options: o, ready: ready, answers: make(map[string][]byte)}
		for _, path := range []string{web.HelloPath, web.PagePath, web.PicturePath} {
			s.answers[path] = head(path)
		}
		return gnet.Run(s, "tcp://"+o.Addr, gnet.WithMulticore(o.Loops > 1), gnet.WithNumEventLoop(o.Loops))
	})
}

const dateName = "\r\nDate: "

// head is an answer up to and including the name of the last header, the date.
func head(path string) []byte {
	body, _ := web.Body(path)
	headers := "Content-Type: text/plain; charset=utf-8\r\n"
	if path == web.PicturePath {
		headers = ""
		for _, h := range web.PictureHeaders {
			headers += h[0] + ": " + h[1] + "\r\n"
		}
	}
	return fmt.Appendf(nil, "HTTP/1.1 200 OK\r\n%sContent-Length: %d%s", headers, len(body), dateName)
}

type server struct {
	gnet.BuiltinEventEngine
	options service.Options
	ready   func(string)
	buffers service.Buffers
	answers map[string][]byte // what is the same in all of a path's answers
}

// OnBoot is called when the listener is there.
func (s *server) OnBoot(gnet.Engine) gnet.Action {
	s.ready(s.options.Addr)
	return gnet.None
}

// OnTraffic is called when a connection has brought something. What it does not
// discard, it sees again.
func (s *server) OnTraffic(c gnet.Conn) gnet.Action {
	in, err := c.Peek(-1)
	if err != nil {
		return gnet.Close
	}
	buffer := s.buffers.Get()
	out, used := (*buffer)[:0], 0
	for {
		end := bytes.Index(in[used:], []byte("\r\n\r\n"))
		if end < 0 {
			break
		}
		request := in[used : used+end]
		used += end + len("\r\n\r\n")
		path := web.HelloPath
		for _, other := range []string{web.PagePath, web.PicturePath} {
			if bytes.HasPrefix(request, []byte("GET "+other)) {
				path = other
			}
		}
		body, _ := web.Body(path)
		out = append(out, s.answers[path]...)
		out = time.Now().UTC().AppendFormat(out, http.TimeFormat)
		out = append(append(out, "\r\n\r\n"...), body...)
	}
	_, err = c.Discard(used)
	if err == nil && len(out) > 0 {
		_, err = c.Write(out)
	}
	s.buffers.Put(buffer, out)
	if err != nil {
		return gnet.Close
	}
	return gnet.None
}
