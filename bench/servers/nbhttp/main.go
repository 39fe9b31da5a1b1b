// Command nbhttp serves HTTP with github.com/lesismal/nbio's package nbhttp, whose handlers
// are net/http's.
package main

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/lesismal/llib/std/crypto/tls"
	"github.com/lesismal/nbio/nbhttp"

	"github.com/hone-go/hone/bench/service"
	"github.com/hone-go/hone/bench/web"
)

func main() {
	service.Main([]string{"pollers"}, func(o service.Options, ready func(string)) error {
		config := nbhttp.Config{Network: "tcp", Handler: sized(web.Handler(o.Pusher)), NPoller: o.Loops, MaxLoad: o.Conns}
		if o.TLS {
			cert, err := web.Certificate()
			if err != nil {
				return err
			}
			config.AddrsTLS = []string{o.Addr}
			config.TLSConfig = &tls.Config{Certificates: []tls.Certificate{{Certificate: cert.Certificate, PrivateKey: cert.PrivateKey}}}
		} else {
			config.Addrs = []string{o.Addr}
		}
		engine := nbhttp.NewEngine(config)
		if err := engine.Start(); err != nil {
			return err
		}
		ready(o.Addr)
		engine.Wait()
		return errors.New("the engine has ended")
	})
}

// sized answers with a handler. It gives the length first: unlike net/http, nbhttp would send
// chunks, even when the whole answer is known, and the client reads answers with a length only.
func sized(answer http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if body, found := web.Body(r.URL.Path); found {
			w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		}
		answer.ServeHTTP(w, r)
	}
}
