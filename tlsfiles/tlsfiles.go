// Package tlsfiles makes TLS configurations that follow the files they are made of, so
// that a certificate is renewed without a restart.
//
//	config, err := tlsfiles.Server{Cert: "server.pem", Key: "server-key.pem", ClientCA: "clients.pem"}.Config()
//	if err != nil {
//		log.Fatal(err)
//	}
//	log.Fatal(srv.Serve(tls.NewListener(ln, config)))
package tlsfiles

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Server is what a server needs for TLS: a certificate and its key, and, where clients
// have certificates too, the authorities that sign those.
type Server struct {
	// Cert is a PEM file with the certificate, followed by those between it and its
	// authority. Required.
	Cert string
	// Key is a PEM file with the certificate's private key. Required.
	Key string
	// ClientCA is a PEM file with authorities. Every client must then have a
	// certificate of one of them. Zero: clients need none.
	ClientCA string
	// Base is where all other settings come from; it is cloned. A net/http server that
	// is to offer HTTP/2 needs NextProtos "h2" and "http/1.1" here. Zero: TLS 1.2 and
	// newer.
	Base *tls.Config
	// Logger hears of files that were read again, and of those that could not be used.
	// Zero: silence.
	Logger *slog.Logger
}

// ErrNoCertificate is in the tls.CertificateVerificationError with which the handshake of a
// client without a certificate fails where it must have one.
var ErrNoCertificate = errors.New("tlsfiles: the client has no certificate")

// checkEvery is how long handshakes do without a look at the files.
const checkEvery = time.Second

// Config reads the files. The configuration that it returns looks at them again when a
// client connects, at most once a second, and has no goroutine: a change counts from
// the next handshake on, and open connections stay what they are. Where the new files
// cannot be used, handshakes go on with what was read last, and the Logger is told
// once.
//
// A session ticket does not outlive the authority of its client: resuming a session
// checks the client's certificates again.
//
// A look costs some 2 µs where nothing has changed (BenchmarkLook), a handshake in
// between 40 ns (BenchmarkHandshakesShare).
func (s Server) Config() (*tls.Config, error) {
	f := &files{Server: s, begun: time.Now()}
	f.seen = f.stat()
	config, err := f.read()
	if err != nil {
		return nil, fmt.Errorf("tlsfiles: %w", err)
	}
	f.current.Store(config)
	f.due.Store(int64(checkEvery))
	outer := config.Clone()
	outer.GetConfigForClient = f.config
	return outer, nil
}

// files are a Server's files and what was read of them.
type files struct {
	Server
	begun   time.Time
	due     atomic.Int64 // when to look at the files again, in nanoseconds since begun
	current atomic.Pointer[tls.Config]

	mu   sync.Mutex
	seen [3]fs.FileInfo // before the files were read last; nil for one that was not there
}

// config is the configuration for the next handshake.
func (f *files) config(*tls.ClientHelloInfo) (*tls.Config, error) {
	now, due := int64(time.Since(f.begun)), f.due.Load()
	if now >= due && f.due.CompareAndSwap(due, now+int64(checkEvery)) {
		f.look()
	}
	return f.current.Load(), nil
}

// look reads the files again if they have changed.
func (f *files) look() {
	f.mu.Lock()
	defer f.mu.Unlock()
	// Before reading: what changes meanwhile will be seen as a change next time.
	found := f.stat()
	changed := false
	for i := range found {
		changed = changed || !same(found[i], f.seen[i])
	}
	if !changed {
		return
	}
	f.seen = found
	config, err := f.read()
	switch {
	case err == nil:
		f.current.Store(config)
		f.log(slog.LevelInfo, "TLS files read again", "cert", f.Cert, "not_after", config.Certificates[0].Leaf.NotAfter)
	default:
		f.log(slog.LevelWarn, "TLS files have changed and cannot be used; going on with the old ones", "error", err)
	}
}

func (f *files) stat() (found [3]fs.FileInfo) {
	for i, path := range [...]string{f.Cert, f.Key, f.ClientCA} {
		if info, err := os.Stat(path); err == nil { // of a symbolic link's target
			found[i] = info
		}
	}
	return found
}

// same reports whether a file is what it was. A new file in its place is another one
// even if it is as long and as old.
func same(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

func (f *files) log(level slog.Level, text string, args ...any) {
	if f.Logger != nil {
		f.Logger.Log(context.Background(), level, text, args...)
	}
}

// read makes a configuration of the files.
func (f *files) read() (*tls.Config, error) {
	config := f.Base.Clone()
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	chain, _, err := certificates(f.Cert)
	if err != nil {
		return nil, err
	}
	key, err := os.ReadFile(f.Key)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, fmt.Errorf("%s with %s: %w", f.Cert, f.Key, err)
	}
	config.Certificates = []tls.Certificate{pair}
	if f.ClientCA == "" {
		return config, nil
	}
	_, authorities, err := certificates(f.ClientCA)
	if err != nil {
		return nil, err
	}
	config.ClientCAs = x509.NewCertPool()
	for _, authority := range authorities {
		config.ClientCAs.AddCert(authority)
	}
	// As tls.RequireAndVerifyClientCert, but for the error of a client without one: its
	// type says what was wrong.
	config.ClientAuth = tls.VerifyClientCertIfGiven
	verify := config.VerifyConnection
	config.VerifyConnection = func(state tls.ConnectionState) error {
		if len(state.PeerCertificates) == 0 {
			return &tls.CertificateVerificationError{Err: ErrNoCertificate}
		}
		if verify != nil {
			return verify(state)
		}
		return nil
	}
	return config, nil
}

// certificates reads a PEM file of certificates and nothing else. It is stricter than
// the standard library, which takes the part of a file that has been written so far.
func certificates(path string) (text []byte, all []*x509.Certificate, err error) {
	text, err = os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	blocks := 0
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if blocks++; block.Type != "CERTIFICATE" {
			continue // a key or parameters, for programs that want all in one file
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: certificate %d: %w", path, len(all)+1, err)
		}
		all = append(all, certificate)
	}
	switch {
	case bytes.Count(text, []byte("-----BEGIN ")) != blocks:
		return nil, nil, fmt.Errorf("%s: a PEM block is not complete", path)
	case len(all) == 0:
		return nil, nil, fmt.Errorf("%s: no PEM certificate in it", path)
	}
	return text, all, nil
}
