// Tls serves framed requests over TLS: a framed.Server accepts any net.Listener, and
// framed.NewClient any net.Conn.
//
// Start it, and send one request (18 bytes: length, Submit, id 1, "hello"):
//
//	go run ./examples/tls
//	(printf '\0\0\0\022\002\0\0\0\0\0\0\0\001hello'; sleep 1) |
//		openssl s_client -quiet -no_ign_eof -connect 127.0.0.1:7002 | xxd
//
// Without -cert and -key it creates a self-signed certificate, and prints its fingerprint for
// clients to compare. With them, it reloads renewed files without a restart.
//
// With -client-ca, it serves only clients whose certificate is signed by an authority in that
// file (mTLS), and the answers begin with the name in the certificate. For that, add the
// client's -cert and -key to the openssl command above.
//
// Every engine can serve TLS. With engine.NewTLSListener, Events serves it from its event loops:
// an idle connection has no goroutine and no buffer, except for those that crypto/tls keeps. The
// other engines have a goroutine and a read buffer for each connection.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/hone-go/hone/engine"
	"github.com/hone-go/hone/framed"
)

// drainTime is how long a shutdown waits for clients to read their answers.
const drainTime = 5 * time.Second

// options are the command's flags.
type options struct {
	addr, cert, key, clientCA string
	engine                    engine.Engine
}

func main() {
	var o options
	flag.StringVar(&o.addr, "addr", "127.0.0.1:7002", "listen on `host:port`; port 0 picks a free one")
	flag.StringVar(&o.cert, "cert", "", "the certificate, a PEM `file` (default: one created at start)")
	flag.StringVar(&o.key, "key", "", "its private key, a PEM `file`")
	flag.StringVar(&o.clientCA, "client-ca", "", "serve only clients with a certificate of an authority in this PEM `file` (default: all)")
	flag.TextVar(&o.engine, "engine", o.engine, "serve on the engine `name` (default "+o.engine.Name()+")")
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	if err := run(ctx, o, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "tls:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, o options, stdout, stderr io.Writer) error {
	logger := slog.New(slog.NewTextHandler(stderr, nil))
	config, err := loadOrMake(o.cert, o.key, o.clientCA, logger)
	if err != nil {
		return err
	}
	srv := &framed.Server{
		Handler: framed.HandlerFunc(upper),
		Engine:  o.engine,
		Logger:  logger,
	}
	ln, err := net.Listen("tcp", o.addr)
	if err != nil {
		return fmt.Errorf("%w; choose another address with -addr (-addr 127.0.0.1:0 picks a free port)", err)
	}
	fmt.Fprintf(stdout, "listening on %v (engine %s)\n", ln.Addr(), o.engine.Name())
	fmt.Fprintf(stdout, "certificate SHA-256 %s\n", fingerprint(config.Certificates[0].Certificate[0]))
	err = serve(ctx, srv, engine.NewTLSListener(ln, config))
	st := srv.Stats()
	fmt.Fprintf(stderr, "%d connections, %d requests, %d bytes in, %d bytes out; drained: %d clean, %d forced\n",
		st.Accepted, st.Requests, st.BytesIn, st.BytesOut, st.Drained.Clean, st.Drained.Forced)
	return err
}

// upper answers in upper case, and greets a client with a certificate by its name.
func upper(c framed.Call, dst, req []byte) ([]byte, error) {
	if name := clientName(c.Conn()); name != "" {
		dst = append(append(dst, name...), ": "...)
	}
	return append(dst, bytes.ToUpper(req)...), nil
}

// clientName is the name in the client's certificate, "" without one. The handshake has
// verified the chains; PeerCertificates alone could be anybody's.
func clientName(c framed.Conn) string {
	if state := c.TLS(); state != nil && len(state.VerifiedChains) > 0 {
		return state.VerifiedChains[0][0].Subject.CommonName
	}
	return ""
}

// serve serves until ctx ends. Then it answers what has been sent and closes. It cuts off
// clients that have not read their answers after drainTime.
func serve(ctx context.Context, srv *framed.Server, ln net.Listener) error {
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	select {
	case err := <-served:
		srv.Close()
		return err
	case <-ctx.Done():
	}
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	err := srv.Shutdown(patience)
	<-served
	return err
}
