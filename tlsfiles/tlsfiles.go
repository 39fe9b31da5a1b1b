// Package tlsfiles makes TLS configurations that reload their certificate files when
// these change, so that certificates can be renewed without a restart.
//
//	config, err := tlsfiles.Server{Cert: "server.pem", Key: "server-key.pem", ClientCA: "clients.pem"}.Config()
//	if err != nil {
//		log.Fatal(err)
//	}
//	log.Fatal(srv.Serve(engine.NewTLSListener(ln, config)))
package tlsfiles

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Server lists the files of a TLS server: a certificate and its key, and, for client
// certificates, the authorities that sign those.
type Server struct {
	// Cert is a PEM file with the certificate, followed by the intermediate certificates.
	// Required.
	Cert string
	// Key is a PEM file with the certificate's private key. Required.
	Key string
	// ClientCA is a PEM file with certificate authorities. If set, every client must
	// present a certificate from one of them. Zero: clients need none.
	ClientCA string
	// TicketKeys is a file with the keys of session tickets: a line of 64 hexadecimal digits each,
	// 32 random bytes. The first encrypts new tickets, and all decrypt: put a new one in front
	// every day, and drop those older than a week. With the same file, clients resume their
	// sessions at the next process, and at other servers. Whoever has a key can read what
	// clients of TLS 1.2 resumed with it. Zero: keys that this configuration makes itself.
	TicketKeys string
	// Base has all other settings; it is cloned. For HTTP/2 with a net/http server, set
	// NextProtos to "h2" and "http/1.1" here. Zero: TLS 1.2 and newer.
	Base *tls.Config
	// Logger gets a line when files were reloaded, or could not be. Zero: no logging.
	Logger *slog.Logger
}

// ErrNoCertificate is wrapped by the tls.CertificateVerificationError with which the
// handshake fails when a client presents no certificate but needs one.
var ErrNoCertificate = errors.New("tlsfiles: the client has no certificate")

// checkEvery is the minimum time between two checks of the files.
const checkEvery = time.Second

// Config reads the files. When a client connects, the configuration that it returns
// checks them again, at most once a second, without a goroutine: a change applies from
// the next handshake on, and open connections are not affected. If the new files are
// invalid, the last valid ones stay in use, and the Logger gets one line.
//
// A session ticket does not outlive the authority of its client: resuming a session
// verifies the client's certificates again.
//
// A check takes about 2 µs when nothing has changed (BenchmarkLook); a handshake between
// checks adds 40 ns (BenchmarkHandshakesShare).
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

// files are a Server's files and the configuration made from them.
type files struct {
	Server
	begun   time.Time
	due     atomic.Int64 // when to check the files next, in nanoseconds since begun
	current atomic.Pointer[tls.Config]

	mu   sync.Mutex
	seen [4]fs.FileInfo // from before the last read; nil for a file that did not exist
	bad  bool           // the last read failed
}

// config returns the configuration for the next handshake.
func (f *files) config(*tls.ClientHelloInfo) (*tls.Config, error) {
	now, due := int64(time.Since(f.begun)), f.due.Load()
	if now >= due && f.due.CompareAndSwap(due, now+int64(checkEvery)) {
		f.look()
	}
	return f.current.Load(), nil
}

// look reloads the files if they have changed.
func (f *files) look() {
	f.mu.Lock()
	defer f.mu.Unlock()
	// Before reading, so that the next check detects a change made meanwhile.
	found := f.stat()
	changed := false
	for i := range found {
		changed = changed || !same(found[i], f.seen[i])
	}
	if !changed && !f.bad { // what has failed may have been a permission, or a lack of descriptors
		return
	}
	f.seen = found
	config, err := f.read()
	f.bad = err != nil
	switch {
	case err == nil:
		f.current.Store(config)
		f.log(slog.LevelInfo, "TLS files reloaded", "cert", f.Cert, "not_after", config.Certificates[0].Leaf.NotAfter)
	case changed: // else it was said before
		f.log(slog.LevelWarn, "cannot use the changed TLS files; keeping the old ones", "error", err)
	}
}

func (f *files) stat() (found [4]fs.FileInfo) {
	for i, path := range [...]string{f.Cert, f.Key, f.ClientCA, f.TicketKeys} {
		if info, err := os.Stat(path); err == nil { // follows a symbolic link
			found[i] = info
		}
	}
	return found
}

// same reports whether a file is unchanged. A new file in its place counts as a change
// even with the same size and time.
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

// read makes a configuration from the files.
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
	if f.TicketKeys != "" {
		keys, err := ticketKeys(f.TicketKeys)
		if err != nil {
			return nil, err
		}
		config.SetSessionTicketKeys(keys)
	}
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
	// Like tls.RequireAndVerifyClientCert, except for the error without a certificate:
	// its type identifies the cause.
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

// ticketKeys reads the keys of session tickets.
func ticketKeys(path string) (keys [][32]byte, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for i, line := range strings.Fields(string(text)) {
		key, err := hex.DecodeString(line)
		if err != nil || len(key) != 32 {
			return nil, fmt.Errorf("%s: key %d is not 64 hexadecimal digits", path, i+1)
		}
		keys = append(keys, [32]byte(key))
	}
	if keys == nil {
		return nil, fmt.Errorf("%s: no key in it", path)
	}
	return keys, nil
}

// certificates reads a PEM file of certificates. It is stricter than the standard
// library, which accepts a file that is only partly written.
func certificates(path string) (text []byte, all []*x509.Certificate, err error) {
	text, err = os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	blocks := 0
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if blocks++; block.Type != "CERTIFICATE" {
			continue // a key or parameters, for programs that want everything in one file
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
