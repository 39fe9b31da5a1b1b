// Tls serves framed requests over TLS: a framed.Server takes any net.Listener,
// and framed.NewClient any net.Conn.
//
// Start it, and send one request (18 bytes: length, Submit, id 1, "hello"):
//
//	go run ./examples/tls
//	(printf '\0\0\0\022\002\0\0\0\0\0\0\0\001hello'; sleep 1) |
//		openssl s_client -quiet -no_ign_eof -connect 127.0.0.1:7002 | xxd
//
// Without -cert and -key it makes itself a certificate, which nobody trusts, and
// prints its fingerprint for clients that want to compare it.
//
// Every engine serves it. Direct and Buffered read from the TLS connection as
// from any other. Parked waits on the socket itself, where it would see records
// and not what is in them, so it serves TLS as Buffered does: a connection keeps
// its read buffer while it is quiet, beside those that crypto/tls keeps anyway.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
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

// drainTime is how long a shutdown waits for answers to be read.
const drainTime = 5 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C does not wait
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, "tls:", err)
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "tls:", err)
		os.Exit(1)
	}
}

// run is the whole program: it serves until ctx ends.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("tls", flag.ContinueOnError)
	addr := flags.String("addr", "127.0.0.1:7002", "listen on `host:port`; port 0 picks a free one")
	cert := flags.String("cert", "", "the certificate, a PEM `file` (default: one made at start)")
	key := flags.String("key", "", "its private key, a PEM `file`")
	how := engineFlag(flags)
	if err := parse(flags, args, stdout); err != nil {
		return err
	}
	if (*cert == "") != (*key == "") {
		return fmt.Errorf("%w: -cert and -key go together; give both or neither", errUsage)
	}
	certificate, err := loadOrMake(*cert, *key)
	if err != nil {
		return err
	}
	srv := &framed.Server{
		Handler: framed.HandlerFunc(upper),
		Engine:  *how,
		Logger:  slog.New(slog.NewTextHandler(stderr, nil)),
	}
	ln, err := net.Listen("tcp", *addr)
	if err != nil {
		return fmt.Errorf("%w; choose another address with -addr (-addr 127.0.0.1:0 picks a free port)", err)
	}
	fmt.Fprintf(stdout, "listening on %v (engine %s)\n", ln.Addr(), how.Name())
	fmt.Fprintf(stdout, "certificate SHA-256 %s\n", fingerprint(certificate.Certificate[0]))
	drained, err := serve(ctx, srv, tls.NewListener(ln, &tls.Config{Certificates: []tls.Certificate{certificate}}))
	st := srv.Stats()
	fmt.Fprintf(stderr, "%d connections, %d requests, %d bytes in, %d bytes out; drained: %d clean, %d forced\n",
		st.Accepted, st.Requests, st.BytesIn, st.BytesOut, drained.Clean, drained.Forced)
	return err
}

// upper answers in upper case. It knows nothing of TLS.
func upper(_ framed.Call, dst, req []byte) ([]byte, error) {
	return append(dst, bytes.ToUpper(req)...), nil
}

// serve serves until ctx ends. Then it answers what was sent and closes; who has
// not read the answers after drainTime is cut off.
func serve(ctx context.Context, srv *framed.Server, ln net.Listener) (engine.Drained, error) {
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	select {
	case err := <-served:
		srv.Close()
		return engine.Drained{}, err
	case <-ctx.Done():
	}
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	drained, err := srv.Shutdown(patience)
	<-served
	return drained, err
}
