// Command nethttp serves HTTP with net/http.
package main

import (
	"crypto/tls"
	"net"
	"net/http"

	"github.com/hone-go/hone/bench/service"
	"github.com/hone-go/hone/bench/web"
)

func main() {
	service.Main([]string{"goroutines"}, func(o service.Options, ready func(string)) error {
		ln, err := net.Listen("tcp", o.Addr)
		if err != nil {
			return err
		}
		s := &http.Server{Handler: web.Handler(o.Pusher)}
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
