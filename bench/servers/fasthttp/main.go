// Command fasthttp serves HTTP with github.com/valyala/fasthttp.
package main

import (
	"bufio"
	"crypto/tls"
	"net"

	"github.com/valyala/fasthttp"

	"github.com/hone-go/hone/bench/service"
	"github.com/hone-go/hone/bench/web"
)

func main() {
	service.Main([]string{"goroutines"}, func(o service.Options, ready func(string)) error {
		ln, err := net.Listen("tcp", o.Addr)
		if err != nil {
			return err
		}
		streams := new(web.Streams)
		streams.Obey(o.Pusher)
		s := &fasthttp.Server{Concurrency: o.Conns, Handler: func(c *fasthttp.RequestCtx) {
			if string(c.Path()) != web.CrowdPath {
				handle(c)
				return
			}
			c.SetContentType("text/event-stream")
			c.SetBodyStreamWriter(func(w *bufio.Writer) { streams.Serve(w, w.Flush, nil) })
		}}
		ready(ln.Addr().String())
		if !o.TLS {
			return s.Serve(ln)
		}
		cert, err := web.Certificate()
		if err != nil {
			return err
		}
		s.TLSConfig = &tls.Config{Certificates: []tls.Certificate{cert}}
		return s.ServeTLS(ln, "", "")
	})
}

func handle(c *fasthttp.RequestCtx) {
	path := c.Path()
	body, found := web.Body(string(path))
	switch {
	case !found:
		c.NotFound()
		return
	case string(path) == web.PicturePath:
		for _, h := range web.PictureHeaders {
			c.Response.Header.Set(h[0], h[1])
		}
	}
	c.WriteString(body)
}
