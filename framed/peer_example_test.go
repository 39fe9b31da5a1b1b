package framed_test

import (
	"log"
	"net"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
	"github.com/hone-go/hone/tlsfiles"
	"github.com/hone-go/hone/wire"
)

// A client's certificate identifies it. Connect reads it once and stores the name, so
// that requests do not pay for it.
func ExampleConn_TLS() {
	srv := &framed.Server{
		Connect: framed.HandlerFunc(func(c framed.Call, dst, _ []byte) ([]byte, error) {
			state := c.Conn().TLS()
			if state == nil || len(state.VerifiedChains) == 0 {
				return dst, wire.Unauthorised
			}
			name := state.PeerCertificates[0].Subject.CommonName
			c.Conn().SetValue(name)
			return append(dst, "hello, "+name...), nil
		}),
		Handler: framed.HandlerFunc(func(c framed.Call, dst, req []byte) ([]byte, error) {
			name, known := c.Conn().Value().(string)
			if !known {
				return dst, wire.Unauthorised
			}
			return append(append(dst, name...), req...), nil
		}),
	}
	config, err := tlsfiles.Server{Cert: "server.pem", Key: "server-key.pem", ClientCA: "clients.pem"}.Config()
	if err != nil {
		log.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:7000")
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(srv.Serve(engine.NewTLSListener(ln, config)))
}
